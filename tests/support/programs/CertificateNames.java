import java.io.ByteArrayInputStream;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.util.Base64;

/** Prints the subject of each certificate of its input, in PEM, as a principal of Kafka has it; in base64, one per line. */
public final class CertificateNames {
    public static void main(String[] arguments) throws Exception {
        byte[] data = System.in.readAllBytes();
        for (Certificate found : CertificateFactory.getInstance("X.509").generateCertificates(new ByteArrayInputStream(data))) {
            String name = ((X509Certificate) found).getSubjectX500Principal().getName();
            System.out.println(Base64.getEncoder().encodeToString(name.getBytes("UTF-8")));
        }
    }
}
