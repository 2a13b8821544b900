import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;

import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Many command-line tools in one JVM. Every line on standard input is a request, {"main": class, "args": [...],
 * "stdin": text}; every line on standard output the answer, {"status": n, "stdout": text, "stderr": text, "millis": n}.
 * A tool that exits does so through Kafka's Exit class, which here throws back to the loop instead of ending the JVM.
 */
public class ToolServer {
    private static class Exited extends RuntimeException {
        Exited() {
            super(null, null, false, false);
        }
    }

    /** The status of the tool's first exit and what it had said by then: some tools catch what that exit throws, and exit again. */
    private static Integer firstStatus;
    private static String firstWords;
    private static ByteArrayOutputStream err;

    private static void exit(int status, String message) {
        if (firstStatus == null) {
            if (message != null) System.err.println(message);
            System.err.flush();
            firstStatus = status;
            firstWords = err.toString(StandardCharsets.UTF_8);
        }
        throw new Exited();
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        ObjectMapper json = new ObjectMapper();
        InvocationHandler exit = (proxy, method, given) -> {
            exit((int) given[0], (String) given[1]);
            return null;
        };
        replace("setExitProcedure", exit);
        replace("setHaltProcedure", exit);
        // A tool's shutdown hooks flush and close its clients; they run when its main method has ended.
        List<Runnable> hooks = new ArrayList<>();
        replace("setShutdownHookAdder", (proxy, method, given) -> {
            hooks.add((Runnable) given[1]);
            return null;
        });
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            JsonNode request = json.readTree(line);
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            err = new ByteArrayOutputStream();
            firstStatus = null;
            System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
            System.setIn(new ByteArrayInputStream(request.path("stdin").asText("").getBytes(StandardCharsets.UTF_8)));
            long start = System.nanoTime();
            Set<Thread> hooksBefore = new HashSet<>(hooksOfTheMachine().keySet());
            int status = run(request);
            String words = firstStatus != null ? firstWords : err.toString(StandardCharsets.UTF_8);
            err.reset();
            hooks.forEach(Runnable::run);
            hooks.clear();
            runNewHooksOfTheMachine(hooksBefore);
            ObjectNode answer = json.createObjectNode();
            answer.put("millis", (System.nanoTime() - start) / 1_000_000);
            System.out.flush();
            System.err.flush();
            answer.put("status", status);
            answer.put("stdout", out.toString(StandardCharsets.UTF_8));
            answer.put("stderr", words + err.toString(StandardCharsets.UTF_8));
            answers.println(json.writeValueAsString(answer));
            answers.flush();
        }
    }

    /** What runs when the JVM ends; `--add-opens java.base/java.lang=ALL-UNNAMED` lets it be read. */
    @SuppressWarnings("unchecked")
    private static Map<Thread, Thread> hooksOfTheMachine() throws ReflectiveOperationException {
        Field field = Class.forName("java.lang.ApplicationShutdownHooks").getDeclaredField("hooks");
        field.setAccessible(true);
        return (Map<Thread, Thread>) field.get(null);
    }

    /**
     * Some tools give their hooks to the JVM itself. A client that such a hook would close must not outlive its tool:
     * it would ask for its topic for ever, and create it on the next cluster that gets the same port.
     */
    private static void runNewHooksOfTheMachine(Set<Thread> before) throws Exception {
        for (Thread hook : new ArrayList<>(hooksOfTheMachine().keySet())) {
            if (before.contains(hook) || !Runtime.getRuntime().removeShutdownHook(hook)) continue;
            hook.start();
            hook.join();
        }
    }

    /** Calls a setter of Kafka's Exit class, which is in another package since 4.4, with an object that does this. */
    private static void replace(String setter, InvocationHandler replacement) throws ReflectiveOperationException {
        Class<?> exit;
        try {
            exit = Class.forName("org.apache.kafka.common.utils.internals.Exit");
        } catch (ClassNotFoundException older) {
            exit = Class.forName("org.apache.kafka.common.utils.Exit");
        }
        for (Method method : exit.getMethods()) {
            if (method.getName().equals(setter)) {
                Class<?> type = method.getParameterTypes()[0];
                method.invoke(null, Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, replacement));
                return;
            }
        }
        throw new NoSuchMethodException(setter);
    }

    private static int run(JsonNode request) {
        List<String> args = new ArrayList<>();
        request.path("args").forEach(argument -> args.add(argument.asText()));
        try {
            Class.forName(request.path("main").asText()).getMethod("main", String[].class)
                .invoke(null, (Object) args.toArray(new String[0]));
            return firstStatus != null ? firstStatus : 0;
        } catch (InvocationTargetException error) {
            if (firstStatus != null) return firstStatus;
            error.getCause().printStackTrace();
            return 1;
        } catch (ReflectiveOperationException error) {
            error.printStackTrace();
            return 1;
        }
    }
}
