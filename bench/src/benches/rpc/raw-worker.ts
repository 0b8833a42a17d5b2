/** The echo worker of the ceiling. */
import { serve } from "../../remote.ts";
import { popForEver, RawPusher } from "./raw.ts";

serve((config: { host: string; port: number; prefix: string }) => {
  const replies = new RawPusher(config, `${config.prefix}:replies`);
  const calls = popForEver(config, `${config.prefix}:calls`, (elements) => {
    for (const element of elements) {
      const { id, params } = JSON.parse(element) as { id: number; params: unknown };
      replies.push(JSON.stringify({ id, result: params }));
    }
  });
  return {
    close: () => {
      calls.close();
      replies.close();
    },
  };
});
