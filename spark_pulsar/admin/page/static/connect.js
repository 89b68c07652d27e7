// How programs connect: the addresses of the broker, and first programs with them.

import { shellWord } from "./commands.js";
import { note, showDialog } from "./dialogs.js";
import { h, newId } from "./dom.js";
import { fullName } from "./names.js";
import { copy } from "./records.js";
import { get, path, schemeSignedIn } from "./rest.js";

const USUAL_PORT = 6650;
let told = null;

/** Addresses that the cluster names, and those that `spark-pulsar page` was given; what nobody names is guessed. */
export async function addresses(signal) {
  const quiet = (call) => call.catch(() => null);
  told ??= await get("/page/connect.json", signal);
  const clusters = (await quiet(get(path("clusters"), signal))) ?? [];
  const document = clusters.length ? await quiet(get(path("clusters", clusters[0]), signal)) : null;
  const name = location.hostname.includes(":") ? `[${location.hostname}]` : location.hostname;
  return {
    service: told.serviceUrl || document?.brokerServiceUrlTls || document?.brokerServiceUrl || `pulsar://${name}:${USUAL_PORT}`,
    admin: told.adminUrl || location.origin,
    isGuessed: !told.serviceUrl && !document,
    produces: told.produces === true,
  };
}

const literal = (text) => JSON.stringify(text);

/** What a program adds for the credentials that are signed in with, by their scheme and its language. */
const CREDENTIALS = {
  Bearer: {
    Python: `, authentication=pulsar.AuthenticationToken("TOKEN")`,
    Spark: `\n    .option("pulsar.client.authPluginClassName", "token").option("pulsar.client.authParams", "token:TOKEN")`,
    Java: `\n    .authentication(AuthenticationFactory.token("TOKEN"))`,
    "Command line": " --auth-plugin token --auth-params env:TOKEN",
  },
  Basic: {
    Python: `, authentication=pulsar.AuthenticationBasic("USER", "PASSWORD")`,
    Spark: `\n    .option("pulsar.client.authPluginClassName", "basic").option("pulsar.client.authParams", '{"userId": "USER", "password": "PASSWORD"}')`,
    Java: `\n    .authentication("org.apache.pulsar.client.impl.auth.AuthenticationBasic", "{\\"userId\\":\\"USER\\",\\"password\\":\\"PASSWORD\\"}")`,
    "Command line": ` --auth-plugin basic --auth-params '{"userId":"USER","password":"PASSWORD"}'`,
  },
};
const credentials = (language) => CREDENTIALS[schemeSignedIn()]?.[language] ?? "";

const SNIPPETS = {
  Python: ({ service }, topic) => `# pip install pulsar-client
import pulsar

client = pulsar.Client(${literal(service)}${credentials("Python")})
consumer = client.subscribe(${literal(topic)}, "my-subscription")
producer = client.create_producer(${literal(topic)})
producer.send(b"hello")
message = consumer.receive(timeout_millis=10_000)
print(message.data())
consumer.acknowledge(message)
client.close()
`,
  Spark: ({ service }, topic) => `import spark_pulsar
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
rows = (
    spark.read.format("pulsar")
    .option("service.url", ${literal(service)})${credentials("Spark")}
    .option("topic", ${literal(topic)})
    .load()
)
rows.selectExpr("STRING(__key)", "STRING(value)", "__publishTime").show(truncate=False)
`,
  Java: ({ service }, topic) => `// org.apache.pulsar:pulsar-client
import org.apache.pulsar.client.api.*;

PulsarClient client = PulsarClient.builder().serviceUrl(${literal(service)})${credentials("Java")}.build();
Consumer<String> consumer = client.newConsumer(Schema.STRING)
    .topic(${literal(topic)}).subscriptionName("my-subscription").subscribe();
Producer<String> producer = client.newProducer(Schema.STRING).topic(${literal(topic)}).create();
producer.send("hello");
Message<String> message = consumer.receive();
System.out.println(message.getValue());
consumer.acknowledge(message);
client.close();
`,
  "Command line": ({ service, admin }, topic) => `export PULSAR_SERVICE_URL=${shellWord(service)} PULSAR_ADMIN_URL=${shellWord(admin)}
spark-pulsar produce ${shellWord(topic)} -m hello -m world${credentials("Command line")}
spark-pulsar read ${shellWord(topic)} --from earliest${credentials("Command line")}
spark-pulsar admin topics stats ${shellWord(topic)}${credentials("Command line")}
`,
};

function copyButton(name, text) {
  const run = async () => {
    try {
      await copy(text());
      note(`Copied: ${name}`);
    } catch (error) {
      note(`Not copied: ${error.message}`, "problem");
    }
  };
  return h("button", { type: "button", class: "quiet", "aria-label": `Copy ${name}`, onclick: run }, "Copy");
}

/** The box, for a place's topic or one that is to be. */
export function connectBox(urls, place = {}) {
  const topic = place.topic === undefined ? `persistent://${place.tenant ?? "public"}/${place.namespace ?? "default"}/my-topic` : fullName(place);
  const id = newId("language");
  const code = h("pre", { tabindex: "0", class: "snippet" });
  const language = h("select", { id }, Object.keys(SNIPPETS).map((name) => h("option", { value: name }, name)));
  const draw = () => code.replaceChildren(SNIPPETS[language.value](urls, topic));
  language.addEventListener("input", draw);
  draw();
  const row = (name, url, hint) => h("div", { class: "address" }, h("span", {}, name), h("code", {}, url), copyButton(name, () => url), hint ? h("span", { class: "hint" }, hint) : null);
  return h(
    "div",
    { class: "connect" },
    row("Service URL", urls.service, urls.isGuessed ? "The usual one of this host: the cluster names none." : ""),
    row("Admin URL", urls.admin),
    h("div", { class: "address" }, h("label", { for: id }, "Program"), language, copyButton("program", () => code.textContent)),
    code,
  );
}

export async function showConnect(place) {
  const urls = await addresses().catch((error) => note(error.message, "problem"));
  if (!urls) return;
  await showDialog("Connect", (close) => [connectBox(urls, place), h("div", { class: "buttons" }, h("button", { type: "button", class: "primary", autofocus: true, onclick: () => close() }, "Close"))], { isWide: true });
}
