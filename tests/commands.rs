//! What the built command says without recording this host: no root, and all at once.

mod bad_input;
mod book;
mod common;
mod corpus;
mod dependencies;
mod explained;
mod imports;
mod kernels;
mod layout;
mod limits;
mod packed;
mod report;
