// What Apache Kafka itself says about its settings, for the tests that compare ours with it.
//
// Without arguments: one line for each setting: table, name, type, default, importance, validator, update mode,
// internal, separated by tabs. With an argument, a file: each line is a set of properties, NAME=VALUE with tabs
// between them; one line is printed for each, `ok` or `refused` with Kafka's reason after a tab.

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.QuotaConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.storage.internals.log.LogConfig;

public class ConfigFacts {
    public static void main(String[] arguments) throws Exception {
        if (arguments.length == 0) {
            print("broker", AbstractKafkaConfig.CONFIG_DEF);
            print("broker", QuotaConfig.brokerQuotaConfigs());
            print("topic", LogConfig.configDefCopy());
            print("group", GroupConfig.CONFIG_DEF);
            printSynonyms();
            return;
        }
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            System.out.println(judge(line));
        }
    }

    private static void print(String table, ConfigDef definition) {
        Map<String, String> modes = DynamicBrokerConfig.dynamicConfigUpdateModes();
        for (ConfigDef.ConfigKey key : new TreeMap<>(definition.configKeys()).values()) {
            String value = !key.hasDefault() ? "(required)"
                : key.defaultValue == null ? "(null)" : ConfigDef.convertToString(key.defaultValue, key.type);
            String mode = table.equals("broker") ? modes.getOrDefault(key.name, "read-only") : "read-only";
            String validator = key.validator == null ? "" : key.validator.toString();
            System.out.println(String.join("\t", table, key.name, key.type.toString(), value,
                key.importance.toString(), validator, mode, String.valueOf(key.internalConfig)));
        }
    }

    private static void printSynonyms() {
        ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.forEach((topic, synonyms) -> {
            StringBuilder line = new StringBuilder("synonyms\t" + topic);
            synonyms.forEach(each -> line.append("\t" + each.name() + "*" + each.converter().apply("1")));
            System.out.println(line);
        });
        GroupConfig.ALL_GROUP_CONFIG_SYNONYMS.forEach((group, broker) ->
            broker.ifPresent(name -> System.out.println("synonyms\t" + group + "\t" + name + "*1")));
    }

    private static String judge(String line) {
        Map<String, String> properties = new HashMap<>();
        for (String entry : line.split("\t")) {
            int at = entry.indexOf('=');
            properties.put(entry.substring(0, at), entry.substring(at + 1));
        }
        try {
            if (properties.remove("TOPIC") != null) {
                LogConfig.validate(Map.of(), properties, LogConfig.configDefCopy().parse(Map.of()), true);
            } else {
                KafkaConfig.fromProps(toProperties(properties), false);
            }
            return "ok";
        } catch (RuntimeException refused) {
            return "refused\t" + String.valueOf(refused.getMessage()).replace('\n', ' ');
        }
    }

    private static java.util.Properties toProperties(Map<String, String> entries) {
        java.util.Properties properties = new java.util.Properties();
        properties.putAll(entries);
        return properties;
    }
}
