import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.StringJoiner;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;

/**
 * Apache Kafka's own opinion on bytes. Standard input holds entries of (class name, version, bytes); for each, standard
 * output gets the bytes as Kafka writes them again and the message as JSON, or a sentence on why it can't be read.
 * An entry without bytes (length -1) asks for the defaults of a message and of the structs inside it. What is left of
 * the output are Kafka's errors, each as its number, its name and whether a client may try again.
 */
public class RoundTrip {
    private static final String[] PACKAGES = {
        "org.apache.kafka.common.message", "org.apache.kafka.common.metadata",
        "org.apache.kafka.coordinator.group.generated", "org.apache.kafka.coordinator.transaction.generated",
        "org.apache.kafka.coordinator.share.generated", "org.apache.kafka.raft.generated",
        "org.apache.kafka.server.log.remote.metadata.storage.generated",
    };

    public static void main(String[] args) throws Exception {
        var in = new DataInputStream(new BufferedInputStream(System.in));
        var out = new DataOutputStream(new BufferedOutputStream(System.out));
        for (String name = in.readUTF(); !name.isEmpty(); name = in.readUTF()) {
            short version = in.readShort();
            int size = in.readInt();
            byte[] data = size < 0 ? null : in.readNBytes(size);
            try {
                if (data == null) {
                    describeDefaults(out, find(name), version);
                } else {
                    answer(out, name, version, data);
                }
            } catch (ReflectiveOperationException | RuntimeException error) {
                Throwable cause = error.getCause() == null ? error : error.getCause();
                out.writeBoolean(false);
                write(out, cause.toString().getBytes(StandardCharsets.UTF_8));
            }
        }
        for (Errors each : Errors.values()) {
            boolean retriable = each.exception() instanceof RetriableException;
            out.writeBytes(each.code() + " " + each.name() + " " + retriable + "\n");
        }
        out.flush();
    }

    private static void answer(DataOutputStream out, String name, short version, byte[] data) throws Exception {
        Class<?> type = find(name);
        var message = (Message) type.getConstructor().newInstance();
        ByteBuffer buffer = ByteBuffer.wrap(data);
        message.read(new ByteBufferAccessor(buffer), version);
        if (buffer.hasRemaining()) {
            throw new IllegalStateException(buffer.remaining() + " bytes left unread");
        }
        ByteBuffer again = MessageUtil.toByteBufferAccessor(message, version).buffer();
        byte[] bytes = new byte[again.remaining()];
        again.get(bytes);
        String json = json(type, message, version);
        out.writeBoolean(true);
        write(out, bytes);
        write(out, json.getBytes(StandardCharsets.UTF_8));
    }

    private static void describeDefaults(DataOutputStream out, Class<?> type, short version) throws Exception {
        var found = new StringJoiner(", ", "{", "}");
        found.add("\"\": " + json(type, type.getConstructor().newInstance(), version));
        for (Class<?> inner : type.getDeclaredClasses()) {
            if (Message.class.isAssignableFrom(inner)) {
                String json;
                try {
                    json = json(inner, inner.getConstructor().newInstance(), version);
                } catch (InvocationTargetException notInThisVersion) {
                    continue;
                }
                found.add("\"" + inner.getSimpleName() + "\": " + json);
            }
        }
        out.writeBoolean(true);
        write(out, new byte[0]);
        write(out, found.toString().getBytes(StandardCharsets.UTF_8));
    }

    /** The converter of X is XJsonConverter; that of X$Y is XJsonConverter$YJsonConverter. */
    private static String json(Class<?> type, Object message, short version) throws Exception {
        String converter = type.getName().replace("$", "JsonConverter$") + "JsonConverter";
        return Class.forName(converter).getMethod("write", type, short.class, boolean.class)
            .invoke(null, message, version, false).toString();
    }

    private static Class<?> find(String name) throws ClassNotFoundException {
        for (String prefix : PACKAGES) {
            for (String suffix : new String[] {"", "Data"}) {
                try {
                    return Class.forName(prefix + "." + name + suffix);
                } catch (ClassNotFoundException error) {
                    continue;
                }
            }
        }
        throw new ClassNotFoundException(name);
    }

    private static void write(DataOutputStream out, byte[] bytes) throws Exception {
        out.writeInt(bytes.length);
        out.write(bytes);
    }
}
