// Turns src/*.ts into dist/*.js by leaving out the types, as a compiler would.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";

mkdirSync("dist", { recursive: true });
for (const name of readdirSync("src")) {
  const source = readFileSync(`src/${name}`, "utf8");
  writeFileSync(`dist/${name.replace(/\.ts$/, ".js")}`, stripTypeScriptTypes(source));
}
