// Reads a JSON list of texts on stdin; writes {encoding: [counts]} for the two encodings in wide use.
import { encode as o200k } from "gpt-tokenizer/encoding/o200k_base";
import { encode as cl100k } from "gpt-tokenizer/encoding/cl100k_base";

let input = "";
for await (const chunk of process.stdin) input += chunk;
const texts = JSON.parse(input);
process.stdout.write(
  JSON.stringify({
    o200k_base: texts.map((text) => o200k(text).length),
    cl100k_base: texts.map((text) => cl100k(text).length),
  }),
);
