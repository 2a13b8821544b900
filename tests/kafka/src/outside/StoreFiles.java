package outside;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.util.Collections;
import java.util.Map;

/** Key and trust stores of a test as PKCS12 files: the format JKS, which Kafka's tests write, is Java's own. */
final class StoreFiles {
    private final Path dir;

    StoreFiles(Path dir) {
        this.dir = dir;
    }

    /** Rewrites the settings of one node that name JKS stores. */
    void convert(Map<String, String> settings, String node) throws IOException {
        if ("JKS".equals(settings.get("ssl.keystore.type"))) convert(settings, "ssl.keystore", settings.get("ssl.key.password"), node);
        if ("JKS".equals(settings.get("ssl.truststore.type"))) convert(settings, "ssl.truststore", null, node);
        // A PKCS12 file has one password for the store and its keys.
        if ("PKCS12".equals(settings.get("ssl.keystore.type"))) settings.remove("ssl.key.password");
    }

    private void convert(Map<String, String> settings, String prefix, String keyPassword, String node) throws IOException {
        char[] password = settings.get(prefix + ".password").toCharArray();
        Path file = dir.resolve(node + "." + prefix + ".p12");
        try (InputStream in = Files.newInputStream(Path.of(settings.get(prefix + ".location")));
             OutputStream out = Files.newOutputStream(file)) {
            KeyStore old = KeyStore.getInstance("JKS");
            old.load(in, password);
            KeyStore converted = KeyStore.getInstance("PKCS12");
            converted.load(null, null);
            for (String alias : Collections.list(old.aliases())) {
                if (old.isKeyEntry(alias)) {
                    char[] key = keyPassword == null ? password : keyPassword.toCharArray();
                    converted.setKeyEntry(alias, old.getKey(alias, key), password, old.getCertificateChain(alias));
                } else {
                    converted.setCertificateEntry(alias, old.getCertificate(alias));
                }
            }
            converted.store(out, password);
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException(e);
        }
        settings.put(prefix + ".type", "PKCS12");
        settings.put(prefix + ".location", file.toString());
    }
}
