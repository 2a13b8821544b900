import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.server.common.Feature;
import org.apache.kafka.server.common.FeatureVersion;
import org.apache.kafka.server.common.MetadataVersion;

/** What a release of Kafka says about its errors, its APIs and its features: one fact a line. */
public class ProtocolFacts {
    public static void main(String[] arguments) {
        for (Errors error : Errors.values()) {
            boolean retriable = error.exception() instanceof RetriableException;
            System.out.println("error " + error.code() + " " + error + " " + retriable);
        }
        for (ApiKeys api : ApiKeys.values()) {
            if (api.forwardable) System.out.println("forwardable " + api.id);
        }
        for (MetadataVersion version : MetadataVersion.VERSIONS) {
            System.out.println("metadata " + version.featureLevel() + " " + version + " " + version.isProduction());
        }
        for (Feature feature : Feature.PRODUCTION_FEATURES) {
            for (FeatureVersion version : feature.featureVersions()) {
                System.out.println("feature " + feature.featureName() + " " + version.featureLevel() + " "
                    + version.bootstrapMetadataVersion().featureLevel() + " " + version.dependencies());
            }
            System.out.println("latest " + feature.featureName() + " " + feature.latestProduction());
        }
    }
}
