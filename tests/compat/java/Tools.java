import com.fasterxml.jackson.databind.JsonNode;

import org.apache.kafka.common.utils.Exit;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** Runs main classes of Apache Kafka's tools inside this JVM: what they print, and the code that they would exit with. */
final class Tools {
    private static final long WAIT_MS = 60_000;

    private Tools() { }

    static Map<String, Object> run(JsonNode args) throws Exception {
        Method main = Class.forName(args.get("main").asText()).getMethod("main", String[].class);
        List<String> words = new ArrayList<>();
        args.get("arguments").forEach(word -> words.add(word.asText()));
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        CompletableFuture<Integer> end = new CompletableFuture<>();
        List<Runnable> hooks = new ArrayList<>();
        // Nothing runs after an exit: the tool's thread stays where it called it.
        Exit.Procedure stay = (status, message) -> {
            end.complete(status);
            while (true) {
                LockSupport.park();
            }
        };
        Exit.setExitProcedure(stay);
        Exit.setHaltProcedure(stay);
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        PrintStream oldOut = System.out;
        PrintStream oldErr = System.err;
        InputStream oldIn = System.in;
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        System.setIn(new ByteArrayInputStream(args.get("stdin").asText().getBytes(StandardCharsets.UTF_8)));
        try {
            Thread thread = new Thread(() -> call(main, words, end), "main of " + main.getDeclaringClass());
            thread.setDaemon(true);
            thread.start();
            end.get(WAIT_MS, TimeUnit.MILLISECONDS);
            hooks.forEach(Runnable::run);
        } finally {
            System.setOut(oldOut);
            System.setErr(oldErr);
            System.setIn(oldIn);
        }
        return Map.of("code", end.get(), "out", out.toString(StandardCharsets.UTF_8),
            "err", err.toString(StandardCharsets.UTF_8));
    }

    private static void call(Method main, List<String> words, CompletableFuture<Integer> end) {
        try {
            main.invoke(null, (Object) words.toArray(new String[0]));
            end.complete(0);
        } catch (InvocationTargetException error) {
            error.getCause().printStackTrace();
            end.complete(1);
        } catch (IllegalAccessException error) {
            end.completeExceptionally(error);
        }
    }
}
