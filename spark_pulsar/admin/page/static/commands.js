// Commands of `spark-pulsar` that do what the page does, as a shell reads them.

import { fullName } from "./names.js";

export const shellWord = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);

/** The words of a command as a shell reads them; those that are null are left out. */
export const written = (words) => words.filter((word) => word !== null).map(shellWord).join(" ");

/** A command of `spark-pulsar admin`. */
export const command = (...words) => written(["spark-pulsar", "admin", ...words]);

/** `spark-pulsar why` for a topic, or for one of its subscriptions. */
export const whyCommand = (place) => written(["spark-pulsar", "why", fullName(place), place.subscription ?? null]);
