import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.Readable;

/** Reads "name version hex" from each line, and answers with the bytes and the JSON that Kafka makes of the message. */
public class MessageEcho {
    private static final String[] PACKAGES = {
        "org.apache.kafka.common.message.",
        "org.apache.kafka.common.metadata.",
        "org.apache.kafka.coordinator.group.generated.",
        "org.apache.kafka.coordinator.share.generated.",
        "org.apache.kafka.coordinator.transaction.generated.",
        "org.apache.kafka.raft.generated.",
        "org.apache.kafka.server.log.remote.metadata.storage.generated.",
    };

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        String line;
        while ((line = input.readLine()) != null) {
            String[] words = line.split(" ", -1);
            System.out.println(answer(words[0], Short.parseShort(words[1]), HexFormat.of().parseHex(words[2])));
        }
    }

    private static String answer(String name, short version, byte[] bytes) {
        try {
            Class<?> type = find(name);
            Constructor<?> constructor = type.getConstructor(Readable.class, short.class);
            ByteBufferAccessor readable = new ByteBufferAccessor(ByteBuffer.wrap(bytes));
            Message message = (Message) constructor.newInstance(readable, version);
            if (readable.remaining() != 0) {
                return "error " + readable.remaining() + " bytes are left over";
            }
            ByteBuffer written = MessageUtil.toByteBufferAccessor(message, version).buffer();
            byte[] copy = new byte[written.remaining()];
            written.get(copy);
            Class<?> converter = Class.forName(type.getName() + "JsonConverter");
            Method write = converter.getMethod("write", type, short.class, boolean.class);
            JsonNode json = (JsonNode) write.invoke(null, message, version, false);
            return "ok " + HexFormat.of().formatHex(copy) + " " + json;
        } catch (Exception error) {
            Throwable cause = error.getCause() == null ? error : error.getCause();
            return "error " + cause.toString().replace('\n', ' ');
        }
    }

    private static Class<?> find(String name) throws ClassNotFoundException {
        for (String prefix : PACKAGES) {
            for (String suffix : new String[] {"", "Data"}) {
                try {
                    Class<?> type = Class.forName(prefix + name + suffix);
                    if (Message.class.isAssignableFrom(type)) {
                        return type;
                    }
                } catch (ClassNotFoundException absent) {
                    // The next place, then.
                }
            }
        }
        throw new ClassNotFoundException(name);
    }
}
