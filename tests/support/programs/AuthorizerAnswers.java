import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Answers questions about ACLs with Kafka's own StandardAuthorizer: one line of 0s and 1s for each "world" of its input. */
public final class AuthorizerAnswers {
    private record Client(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        @Override public String listenerName() { return "PLAINTEXT"; }
        @Override public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
        @Override public int requestType() { return 0; }
        @Override public int requestVersion() { return 0; }
        @Override public String clientId() { return "client"; }
        @Override public int correlationId() { return 0; }
    }

    public static void main(String[] args) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        StandardAuthorizer authorizer = null;
        Map<String, Uuid> ids = new HashMap<>();
        StringBuilder answers = new StringBuilder();
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split("\t", -1);
            switch (words[0]) {
                case "world" -> {
                    authorizer = new StandardAuthorizer();
                    authorizer.configure(Map.of("super.users", words[1], "allow.everyone.if.no.acl.found", words[2]));
                    authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
                    authorizer.completeInitialLoad();
                    ids.clear();
                }
                case "add" -> {
                    Uuid id = Uuid.randomUuid();
                    ids.put(words[1], id);
                    authorizer.addAcl(id, new StandardAcl(
                        ResourceType.fromCode(code(words[2])), words[3], PatternType.fromCode(code(words[4])), words[5], words[6],
                        AclOperation.fromCode(code(words[7])), AclPermissionType.fromCode(code(words[8]))));
                }
                case "remove" -> authorizer.removeAcl(ids.remove(words[1]));
                case "ask" -> {
                    ResourcePattern resource = new ResourcePattern(ResourceType.fromCode(code(words[4])), words[5], PatternType.LITERAL);
                    Action action = new Action(AclOperation.fromCode(code(words[3])), resource, 1, true, true);
                    note(answers, authorizer.authorize(client(words), List.of(action)).get(0));
                }
                case "any" -> note(answers, authorizer.authorizeByResourceType(
                    client(words), AclOperation.fromCode(code(words[3])), ResourceType.fromCode(code(words[4]))));
                case "end" -> {
                    System.out.println(answers);
                    answers.setLength(0);
                }
                default -> throw new IllegalArgumentException(line);
            }
        }
    }

    private static void note(StringBuilder answers, AuthorizationResult result) {
        answers.append(result == AuthorizationResult.ALLOWED ? '1' : '0');
    }

    private static Client client(String[] words) throws Exception {
        return new Client(SecurityUtils.parseKafkaPrincipal(words[1]), InetAddress.getByName(words[2]));
    }

    private static byte code(String number) {
        return Byte.parseByte(number);
    }
}
