package kafka.security.minikdc;

import java.io.File;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;

/**
 * Our own stand-in, put before Kafka's class of the same name on the class path: a key distribution center of MIT
 * Kerberos, from the operating system's packages, instead of one that needs another directory server in the JVM.
 */
public class MiniKdc {
    private static final String REALM = "EXAMPLE.COM";

    private final Path dir;
    private Process process;

    public MiniKdc(Properties config, File workDir) {
        dir = workDir.toPath();
    }

    public static Properties createConfig() {
        return new Properties();
    }

    public void start() throws Exception {
        int port;
        try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            port = free.getLocalPort();
        }
        Files.writeString(dir.resolve("krb5.conf"), String.join("\n", "[libdefaults]", "default_realm = " + REALM,
            "dns_lookup_kdc = false", "dns_lookup_realm = false", "rdns = false", "dns_canonicalize_hostname = false",
            "udp_preference_limit = 1", "[realms]", REALM + " = {", "kdc = 127.0.0.1:" + port, "}", ""));
        Files.writeString(dir.resolve("kdc.conf"), String.join("\n", "[kdcdefaults]", "kdc_listen = 127.0.0.1:" + port,
            "kdc_tcp_listen = 127.0.0.1:" + port, "[realms]", REALM + " = {", "database_name = " + dir.resolve("principals"),
            "key_stash_file = " + dir.resolve("stash"), "acl_file = " + dir.resolve("acl"), "}", ""));
        run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master-password");
        process = builder("krb5kdc", "-n").start();
        for (int i = 0; i < 1_000 && !answers(port); i++) Thread.sleep(20);
        System.setProperty("java.security.krb5.conf", dir.resolve("krb5.conf").toString());
        Class.forName("sun.security.krb5.Config").getMethod("refresh").invoke(null);
    }

    public void stop() {
        if (process != null) process.destroyForcibly();
        System.clearProperty("java.security.krb5.conf");
    }

    public void createPrincipal(File keytab, List<String> principals) throws IOException {
        // An empty file is no keytab.
        if (keytab.length() == 0) Files.deleteIfExists(keytab.toPath());
        for (String principal : principals) {
            run("kadmin.local", "-r", REALM, "addprinc", "-randkey", principal);
            run("kadmin.local", "-r", REALM, "ktadd", "-k", keytab.getPath(), principal);
        }
    }

    private static boolean answers(int port) {
        try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), port)) {
            return socket.isConnected();
        } catch (IOException e) {
            return false;
        }
    }

    private void run(String... command) throws IOException {
        try {
            Process done = builder(command).start();
            String said = new String(done.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            if (done.waitFor() != 0) throw new IOException(String.join(" ", command) + ": " + said);
        } catch (InterruptedException e) {
            throw new IOException(e);
        }
    }

    private ProcessBuilder builder(String... command) {
        // Debian has these programs where only root looks for them.
        List<String> found = new ArrayList<>(List.of(command));
        for (String place : List.of("/usr/sbin/", "/usr/bin/")) {
            if (Files.exists(Path.of(place + command[0]))) found.set(0, place + command[0]);
        }
        ProcessBuilder builder = new ProcessBuilder(found).redirectErrorStream(true);
        builder.environment().putAll(Map.of("KRB5_CONFIG", dir.resolve("krb5.conf").toString(),
            "KRB5_KDC_PROFILE", dir.resolve("kdc.conf").toString()));
        return builder;
    }
}
