//! Names and signatures from the running kernel's BTF: never from a table of ours.

use std::collections::HashMap;

use libbpf_rs::btf::types::{Enum, FuncProto, Ptr, Struct, Typedef};
use libbpf_rs::btf::{Btf, ReferencesType};
use recording::{TcpState, Text};

/// The kernel's type information.
pub struct KernelBtf(Btf<'static>);

impl KernelBtf {
    /// Reads `/sys/kernel/btf/vmlinux`.
    pub fn load() -> Result<KernelBtf, String> {
        let failed = |e| {
            // In full: it may be there, and no file may be open any more.
            format!("the kernel's type information cannot be read (CONFIG_DEBUG_INFO_BTF): {e:#}")
        };
        Btf::from_vmlinux().map(KernelBtf).map_err(failed)
    }

    /// How many arguments a tracepoint passes; `None` when the kernel has no such tracepoint.
    pub fn tracepoint_args(&self, name: &str) -> Option<usize> {
        let typedef: Typedef = self.0.type_by_name(&format!("btf_trace_{name}"))?;
        let pointer: Ptr = typedef.referenced_type().try_into().ok()?;
        let function: FuncProto = pointer.referenced_type().try_into().ok()?;
        // The first is the tracer's own data.
        function.len().checked_sub(1)
    }

    /// The constants of an enum: value and name without `prefix`.
    pub fn constants(&self, name: &str, prefix: &str) -> HashMap<i64, Text> {
        let Some(e) = self.0.type_by_name::<Enum>(name) else {
            return HashMap::new();
        };
        let named = e.iter().filter_map(|member| {
            let name = member.name?.to_str()?;
            Some((
                member.value,
                Text::from(name.strip_prefix(prefix).unwrap_or(name)),
            ))
        });
        named.collect()
    }

    /// Whether the kernel has this struct.
    pub fn has_struct(&self, name: &str) -> bool {
        self.0.type_by_name::<Struct>(name).is_some()
    }

    /// Whether BPF programs have this helper: `bpf_get_task_stack` without its `bpf_`.
    pub fn has_helper(&self, name: &str) -> bool {
        let Some(helpers) = self.0.type_by_name::<Enum>("bpf_func_id") else {
            return false;
        };
        let name = format!("BPF_FUNC_{name}");
        helpers.iter().any(|h| h.name.is_some_and(|n| *n == *name))
    }

    /// The constants of the first enum, named or not, that has a constant `member`.
    fn constants_beside(&self, member: &str, prefix: &str) -> HashMap<i64, Text> {
        let has = |e: &Enum| e.iter().any(|m| m.name.is_some_and(|n| n == member));
        let Some(e) = self.0.type_by_kind::<Enum>().find(has) else {
            return HashMap::new();
        };
        let named = e.iter().filter_map(|m| {
            let name = m.name?.to_str()?.strip_prefix(prefix)?;
            Some((m.value, Text::from(name)))
        });
        named.collect()
    }
}

/// The kernel's names for the numbers in our records.
#[derive(Clone)]
pub struct Names {
    states: [TcpState; 16],
    ca_states: HashMap<i64, Text>,
    drop_reasons: HashMap<i64, Text>,
    reset_reasons: HashMap<i64, Text>,
}

impl Names {
    /// Looks all of them up once.
    pub fn load(btf: &KernelBtf) -> Names {
        let states = btf.constants_beside("TCP_ESTABLISHED", "TCP_");
        Names {
            states: std::array::from_fn(|i| name(&states, i as i64).into()),
            ca_states: btf.constants("tcp_ca_state", "TCP_CA_"),
            drop_reasons: btf.constants("skb_drop_reason", "SKB_DROP_REASON_"),
            reset_reasons: btf.constants("sk_rst_reason", "SK_RST_REASON_"),
        }
    }
    /// A TCP state. There are twelve; every state change asks.
    pub fn state(&self, number: u8) -> TcpState {
        self.states[usize::from(number & 15)].clone()
    }
    /// A congestion control state.
    pub fn ca_state(&self, number: u8) -> Text {
        name(&self.ca_states, number.into())
    }
    /// Why a packet was dropped.
    pub fn drop_reason(&self, number: u32) -> Text {
        name(&self.drop_reasons, number.into())
    }
    /// Why a reset was sent.
    pub fn reset_reason(&self, number: u32) -> Text {
        name(&self.reset_reasons, number.into())
    }
    /// The number of a drop reason; `None` when this kernel does not have it.
    pub fn drop_reason_number(&self, name: &str) -> Option<i32> {
        let found = self.drop_reasons.iter().find(|(_, n)| **n == *name);
        found.and_then(|(&number, _)| i32::try_from(number).ok())
    }
    /// Whether the kernel gives reasons for drops at all.
    pub fn has_drop_reasons(&self) -> bool {
        !self.drop_reasons.is_empty()
    }
}

/// A number that the kernel's BTF does not name is shown as the number.
fn name(names: &HashMap<i64, Text>, number: i64) -> Text {
    let known = names.get(&number).cloned();
    known.unwrap_or_else(|| Text::from(number.to_string()))
}

#[cfg(test)]
mod tests {
    use recording::drop_reason::drop_kind;

    use super::*;

    /// A kernel that gives a reason which nobody has looked at must not go unnoticed.
    #[test]
    fn every_drop_reason_of_this_kernel_is_of_a_known_kind() {
        let Ok(btf) = KernelBtf::load() else { return };
        let names = Names::load(&btf);
        let mut unknown: Vec<&str> = names.drop_reasons.values().map(|n| &**n).collect();
        unknown.retain(|name| !["MAX", "SUBSYS_MASK"].contains(name) && drop_kind(name).is_none());
        unknown.sort_unstable();
        assert!(
            unknown.is_empty(),
            "reasons without a kind in recording/src/drop_reason.rs: {unknown:?}"
        );
    }
}
