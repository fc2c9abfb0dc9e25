// What the page is given: all of its types, which are made from those of `crates/view/src/report/page/`.
export type * from "./page/chart";
export type * from "./page/facts";
export type * from "./page/finding";
export type * from "./page/limits";
export type * from "./page/run";
export type * from "./page/services";
export type * from "./page/sockets";
