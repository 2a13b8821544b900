import org.apache.kafka.common.security.auth.AuthenticationContext;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder;

/** Whoever comes over a listener for clients is User:client, everybody else User:node. */
public class ListenerPrincipals extends DefaultKafkaPrincipalBuilder {
    public ListenerPrincipals() {
        super(null, null);
    }

    @Override
    public KafkaPrincipal build(AuthenticationContext context) {
        return new KafkaPrincipal("User", context.listenerName().endsWith("CLIENTS") ? "client" : "node");
    }
}
