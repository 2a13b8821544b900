package outside;

import javax.security.auth.login.AppConfigurationEntry;
import javax.security.auth.login.Configuration;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** The section KafkaServer of a test's JAAS file, as settings of listeners: a node does not read the file of another JVM. */
final class LoginModules {
    private static final String UNSECURED = "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler";

    private LoginModules() { }

    /** sasl.jaas.config and what belongs to it, for these mechanisms of a listener. */
    static Map<String, String> settings(String listener, List<String> mechanisms) {
        Map<String, String> settings = new LinkedHashMap<>();
        for (String mechanism : mechanisms) {
            String module = module(mechanism);
            if (module == null) continue;
            String prefix = "listener.name." + listener.toLowerCase(Locale.ROOT) + "." + mechanism.toLowerCase(Locale.ROOT) + ".";
            settings.put(prefix + "sasl.jaas.config", module);
            // The default of Kafka's tests. Our node takes tokens without a signature only if it is told to.
            if (mechanism.equals("OAUTHBEARER")) settings.put(prefix + "sasl.server.callback.handler.class", UNSECURED);
        }
        return settings;
    }

    /** The login module of a mechanism in the section KafkaServer; null without a JAAS file. */
    static String module(String mechanism) {
        if (System.getProperty("java.security.auth.login.config") == null) return null;
        AppConfigurationEntry[] entries = Configuration.getConfiguration().getAppConfigurationEntry("KafkaServer");
        if (entries == null) return null;
        for (AppConfigurationEntry entry : entries) {
            if (entry.getLoginModuleName().contains(loginModule(mechanism))) return text(entry);
        }
        return null;
    }

    private static String loginModule(String mechanism) {
        return switch (mechanism) {
            case "PLAIN" -> "PlainLoginModule";
            case "GSSAPI" -> "Krb5LoginModule";
            case "OAUTHBEARER" -> "OAuthBearerLoginModule";
            default -> "ScramLoginModule";
        };
    }

    private static String text(AppConfigurationEntry entry) {
        StringBuilder line = new StringBuilder(entry.getLoginModuleName()).append(" required");
        entry.getOptions().forEach((key, value) -> line.append(' ').append(key).append("=\"").append(value).append('"'));
        return line.append(';').toString();
    }
}
