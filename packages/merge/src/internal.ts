/** What our own packages share and nobody else should rely on. */
export { AddressGuard } from "./address-guard.ts";
export { newItemId } from "./item.ts";
export { checkKey, MergeKeys } from "./keys.ts";
export { INSTRUMENTS } from "./metrics.ts";
export { signingKey } from "./signature.ts";
export { checkMergeKey, isSingle, pushKeyOf, singlePrefix, targetOf } from "./target.ts";
