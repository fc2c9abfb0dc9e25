//! Changes of tables, rules, ports and CPUs.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{node_of, server_mut};
use crate::plant::Plant;
use crate::scenario::ClientSpec;

/// Makes the namespace anew, with a hash table of so many buckets.
pub(super) fn hash_buckets(plant: &mut Plant, change: &Value) -> Result<String, String> {
    if change["table"] != "ehash" {
        return Err(format!("the lab has no table {} to size", change["table"]));
    }
    let value = change["value"].as_u64().and_then(|v| u32::try_from(v).ok());
    let value = value.ok_or("the change has no number of buckets")?;
    let node = node_of(plant, change)?.0.clone();
    let mut before = None;
    let rebuilt = plant.rebuild(|scenario| {
        if let Some(spec) = scenario.nodes.get_mut(&node) {
            before = spec.child_ehash_entries.replace(value);
        }
    });
    rebuilt.map_err(|e| e.to_string())?;
    let before = before.map_or("the host's table".to_string(), |b| format!("{b} buckets"));
    Ok(format!(
        "{node} made anew with a table of {value} buckets, not {before}"
    ))
}

/// Puts what the node's linear rules compare into a set.
pub(super) fn rules_to_set(plant: &mut Plant, change: &Value) -> Result<String, String> {
    let node = node_of(plant, change)?.0.clone();
    let rules = plant.scenario.nodes[&node].nft_rules;
    if change["table"] != "nft-rules" || rules == 0 {
        return Err(format!("{node} has no linear rules of the lab"));
    }
    let rebuilt = plant.rebuild(|scenario| {
        if let Some(spec) = scenario.nodes.get_mut(&node) {
            spec.nft_set = true;
        }
    });
    rebuilt.map_err(|e| e.to_string())?;
    Ok(format!("{node}: one rule with a set in place of {rules}"))
}

/// Lets the client leave the choice of its port to connect(2).
pub(super) fn connect_chooses_port(plant: &mut Plant, finding: &Value) -> Result<String, String> {
    let client = client_of(plant, finding)?;
    if !std::mem::take(&mut client.bind) {
        return Err(format!("{} does not bind before it connects", client.name));
    }
    Ok(format!(
        "{} no longer lets bind() choose its port",
        client.name
    ))
}

/// Lets the binder ask without SO_REUSEADDR.
pub(super) fn bind_without_reuse(plant: &mut Plant, finding: &Value) -> Result<String, String> {
    let comm = finding["scope"]["comm"].as_str().unwrap_or_default();
    let mut binders = plant.scenario.binders.iter_mut();
    let binder = binders
        .find(|b| b.name == comm && b.reuse)
        .ok_or_else(|| format!("no binder of the lab with SO_REUSEADDR is called `{comm}`"))?;
    binder.reuse = false;
    Ok(format!("{comm} leaves SO_REUSEADDR off"))
}

/// Spreads the client's connections over so many addresses of its server.
pub(super) fn more_addresses(
    plant: &mut Plant,
    change: &Value,
    finding: &Value,
) -> Result<String, String> {
    let value = change["value"].as_u64().and_then(|v| u8::try_from(v).ok());
    let value = value.ok_or("the change has no number of addresses")?;
    let client = client_of(plant, finding)?;
    let before = std::mem::replace(&mut client.addresses, value);
    let done = format!(
        "{} connects to {value} addresses, not {before}",
        client.name
    );
    // The addresses are made with the links.
    plant.rebuild(|_| {}).map_err(|e| e.to_string())?;
    Ok(done)
}

/// The client that the finding is about.
fn client_of<'a>(plant: &'a mut Plant, finding: &Value) -> Result<&'a mut ClientSpec, String> {
    let comm = finding["scope"]["comm"].as_str().unwrap_or_default();
    let mut clients = plant.scenario.clients.iter_mut();
    clients
        .find(|c| c.name == comm)
        .ok_or_else(|| format!("no client of the lab is called `{comm}`"))
}

/// Lets the hogs that the change names run when nobody else wants the CPU.
pub(super) fn run_when_idle(plant: &mut Plant, change: &Value) -> Result<String, String> {
    let pids = change["pids"].as_array().into_iter().flatten();
    let pids = pids.filter_map(|p| u32::try_from(p.as_u64()?).ok());
    let names: BTreeSet<String> = pids
        .filter_map(|pid| plant.hog_names.get(&pid).cloned())
        .collect();
    let mut done = Vec::new();
    for hog in &mut plant.scenario.hogs {
        if names.contains(&hog.name) && !hog.idle {
            (hog.idle, hog.fifo) = (true, None);
            done.push(hog.name.as_str());
        }
    }
    if done.is_empty() {
        Err("none of these processes is a hog of the lab".to_string())
    } else {
        Ok(format!("{} runs only on idle CPUs", done.join(", ")))
    }
}

/// Grants the server's cgroup more CPU time.
pub(super) fn cpu_quota(
    plant: &mut Plant,
    change: &Value,
    finding: &Value,
) -> Result<String, String> {
    let cpus = change["cpus"].as_f64().filter(|c| *c > 0.0);
    let cpus = cpus.ok_or("the change grants no CPU time")?;
    let comm = finding["scope"]["comm"].as_str().unwrap_or_default();
    let mut servers = plant.scenario.servers.iter_mut();
    let server = servers.find(|s| s.name == comm && s.cpu_quota.is_some());
    let server = server.ok_or_else(|| format!("`{comm}` has no quota of the lab"))?;
    let before = server.cpu_quota.replace(cpus).unwrap_or_default();
    Ok(format!("CPU quota of {comm}: {before:.2} -> {cpus} CPUs"))
}

/// Lets a server have as many descriptors open as it wants.
pub(super) fn open_files(plant: &mut Plant, finding: &Value) -> Result<String, String> {
    let server = server_mut(plant, &Value::Null, finding)?;
    let before = server.files.take();
    before
        .map(|files| format!("{} may have more than {files} open", server.name))
        .ok_or_else(|| format!("{} has no limit of the lab", server.name))
}

/// Lets the workers of a listener run on every CPU.
pub(super) fn more_cpus(plant: &mut Plant, finding: &Value) -> Result<String, String> {
    let port = server_mut(plant, &Value::Null, finding)?.port;
    let workers = plant.scenario.servers.iter_mut();
    let pinned = workers.filter(|s| s.port == port);
    let freed = pinned.filter_map(|s| s.cpu.take());
    match freed.count() {
        0 => Err("none of them is pinned to a CPU by the lab".to_string()),
        n => Ok(format!("{n} may run on every CPU")),
    }
}
