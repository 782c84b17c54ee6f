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
import java.util.concurrent.atomic.AtomicReference;

/** Runs main classes of Apache Kafka's tools inside this JVM: what they print, and the code that they would exit with. */
final class Tools {
    private static final long WAIT_MS = 60_000;

    private Tools() { }

    @SuppressWarnings("serial")
    private static final class ExitCalled extends Error {
        ExitCalled(int code) {
            super("exit " + code, null, false, false);
        }
    }

    static Map<String, Object> run(JsonNode args) throws Exception {
        Method main = Class.forName(args.get("main").asText()).getMethod("main", String[].class);
        List<String> words = new ArrayList<>();
        args.get("arguments").forEach(word -> words.add(word.asText()));
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        // The first code counts: many tools catch everything around their own call of exit, and exit again with 1.
        AtomicReference<Integer> code = new AtomicReference<>();
        List<Runnable> hooks = new ArrayList<>();
        Exit.Procedure note = (status, message) -> {
            code.compareAndSet(null, status);
            throw new ExitCalled(status);
        };
        Exit.setExitProcedure(note);
        Exit.setHaltProcedure(note);
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        PrintStream oldOut = System.out;
        PrintStream oldErr = System.err;
        InputStream oldIn = System.in;
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        System.setIn(new ByteArrayInputStream(args.get("stdin").asText().getBytes(StandardCharsets.UTF_8)));
        try {
            Thread thread = new Thread(() -> call(main, words, code));
            thread.start();
            thread.join(WAIT_MS);
            if (thread.isAlive()) {
                thread.interrupt();
                throw new IllegalStateException("no end within " + WAIT_MS + " ms: " + out + err);
            }
            hooks.forEach(Runnable::run);
        } finally {
            System.setOut(oldOut);
            System.setErr(oldErr);
            System.setIn(oldIn);
        }
        return Map.of("code", code.get() == null ? 0 : code.get(), "out", out.toString(StandardCharsets.UTF_8),
            "err", err.toString(StandardCharsets.UTF_8));
    }

    private static void call(Method main, List<String> words, AtomicReference<Integer> code) {
        try {
            main.invoke(null, (Object) words.toArray(new String[0]));
        } catch (InvocationTargetException error) {
            if (!(error.getCause() instanceof ExitCalled)) {
                error.getCause().printStackTrace();
                code.compareAndSet(null, 1);
            }
        } catch (IllegalAccessException error) {
            throw new IllegalStateException(error);
        }
    }
}
