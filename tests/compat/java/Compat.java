import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.protocol.Errors;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

/**
 * The Java client and Apache Kafka's tools behind the face of tests/compat/clients: calls as JSON lines on stdin, one
 * answer a line on stdout. Usage: java Compat [HOST:PORT GROUP_PROTOCOL], which tools alone do not need.
 */
public final class Compat {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        // Tools print to System.out; the lines of this protocol keep the real one.
        PrintStream out = System.out;
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8), 1 << 20);
        JavaClient client = null;
        Writers writers = null;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode call = JSON.readTree(line);
            Map<String, Object> answer = new HashMap<>();
            try {
                String op = call.get("op").asText();
                if (op.equals("tool")) {
                    answer.put("result", Tools.run(call.get("args")));
                } else if (op.startsWith("txn.")) {
                    writers = writers == null ? new Writers(arguments[0]) : writers;
                    answer.put("result", writers.answer(op, call.get("args")));
                } else {
                    client = client == null ? new JavaClient(arguments[0], arguments[1]) : client;
                    answer.put("result", client.answer(op, call.get("args")));
                }
            } catch (Throwable error) {
                answer.put("error", describe(error));
            }
            out.println(JSON.writeValueAsString(answer));
            out.flush();
        }
        System.exit(0);
    }

    private static Map<String, Object> describe(Throwable error) {
        Throwable cause = error;
        while (cause.getCause() != null && !(cause instanceof ApiException)) {
            cause = cause.getCause();
        }
        Map<String, Object> described = new HashMap<>();
        described.put("code", cause instanceof ApiException ? (int) Errors.forException(cause).code() : null);
        described.put("message", cause.toString());
        if (!(cause instanceof ApiException)) {
            error.printStackTrace();
        }
        return described;
    }
}
