import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import org.apache.kafka.common.errors.ClusterAuthorizationException;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;

/** Reads lines of KEY VERSION REQUEST ...; prints KEY VERSION REQUEST RESPONSE, with Kafka's reply to a failure. */
public class ErrorReplies {
    public static void main(String[] args) throws Exception {
        for (String line : Files.readAllLines(Path.of(args[0]))) {
            String[] words = line.split(" ");
            short key = Short.parseShort(words[0]);
            short version = Short.parseShort(words[1]);
            byte[] body = HexFormat.of().parseHex(words[2].replace("-", ""));
            AbstractRequest request = AbstractRequest.parseRequest(
                ApiKeys.forId(key), version, new ByteBufferAccessor(ByteBuffer.wrap(body))).request;
            AbstractResponse response = request.getErrorResponse(0, new ClusterAuthorizationException("not for you"));
            ByteBuffer written = MessageUtil.toByteBufferAccessor(response.data(), version).buffer();
            byte[] bytes = new byte[written.remaining()];
            written.get(bytes);
            System.out.println(key + " " + version + " " + words[2] + " " + HexFormat.of().formatHex(bytes));
        }
    }
}
