//! Whether this kernel lets a program walk the notes that it keeps with sockets: some hosts refuse, and all open
//! files are walked in its place.

use std::mem::MaybeUninit;
use std::sync::OnceLock;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};

use crate::error::bpf_error;
use crate::wire::notes::NotesSkelBuilder;

/// Tried once; the error says why it does not.
pub fn walks_notes() -> Result<(), &'static str> {
    static TRIED: OnceLock<Result<(), String>> = OnceLock::new();
    let tried = TRIED.get_or_init(|| {
        let mut object = MaybeUninit::uninit();
        let open = NotesSkelBuilder::default().open(&mut object);
        let loaded = open.and_then(OpenSkel::load);
        loaded.map(drop).map_err(|e| bpf_error(&e))
    });
    tried.as_ref().copied().map_err(String::as_str)
}
