//! Applying tcpwhy's advice to a planted scenario: each `change` of the first finding, inside
//! the lab's namespaces and nowhere else.

mod machine;
mod transfers;

use serde_json::Value;

use crate::command::run;
use crate::judge::port_of;
use crate::link::Wire;
use crate::netns::Netns;
use crate::outcome::Change;
use crate::plant::{Plant, faults};
use crate::scenario::ServerSpec;
use crate::workload::Closer;

/// Applies every change that the finding advises. Servers are changed where they are described;
/// the next start of the servers brings it about.
pub(crate) fn apply(plant: &mut Plant, finding: &Value) -> Vec<Change> {
    let advice = finding["advice"].as_array().into_iter().flatten();
    advice
        .map(|advice| &advice["change"])
        .filter(|change| !change.is_null())
        .map(|change| {
            let result = apply_one(plant, change, finding);
            Change {
                change: change.clone(),
                applied: result.is_ok(),
                result: result.unwrap_or_else(|why| why),
            }
        })
        .collect()
}

/// Applies one change and says what was done, or why it cannot be.
fn apply_one(plant: &mut Plant, change: &Value, finding: &Value) -> Result<String, String> {
    match change["kind"].as_str() {
        Some("sysctl") => sysctl(plant, change),
        Some("backlog") => backlog(plant, change, finding),
        Some("accept-faster") => accept_faster(plant, change, finding),
        Some("start-listener") => start_listener(plant, change, finding),
        Some("keep-options") => keep_options(plant),
        Some("hash-buckets") => machine::hash_buckets(plant, change),
        Some("open-files") => machine::open_files(plant, finding),
        Some("more-cpus") => machine::more_cpus(plant, finding),
        Some("rules-to-set") => machine::rules_to_set(plant, change),
        Some("run-when-idle") => machine::run_when_idle(plant, change),
        Some("cpu-quota") => machine::cpu_quota(plant, change, finding),
        Some("connect-chooses-port") => machine::connect_chooses_port(plant, finding),
        Some("bind-without-reuse") => machine::bind_without_reuse(plant, finding),
        Some("more-addresses") => machine::more_addresses(plant, change, finding),
        Some("queue-limit") => transfers::queue_limit(plant, change),
        Some("repair-path") => transfers::repair_path(plant),
        Some("clamp-mss") => transfers::clamp_mss(plant, change),
        Some("congestion") => transfers::congestion(plant, change),
        Some("no-delay") => transfers::no_delay(plant, change),
        Some("close-gently") => transfers::close_gently(plant, change, finding),
        Some("read-to-end") => transfers::read_to_end(plant, change, finding),
        Some("answer-faster") => transfers::answer_faster(plant, change, finding),
        Some("read-faster") => transfers::read_faster(plant, change, finding),
        Some("receive-buffer") => transfers::receive_buffer(plant),
        Some("allow-syns") => allow_syns(plant, change),
        Some("pass-packets") => allow_syns(plant, change),
        Some("pass-syns") => pass_syns(plant),
        Some("client-closes-first") => client_closes_first(plant, change),
        Some("untrack") => untrack(plant, change),
        Some(other) => Err(format!("the lab cannot do `{other}`")),
        None => Err("the change has no kind".to_string()),
    }
}

fn sysctl(plant: &Plant, change: &Value) -> Result<String, String> {
    let name = change["name"]
        .as_str()
        .ok_or("the change names no sysctl")?;
    let value = match &change["value"] {
        Value::String(text) => text.clone(),
        Value::Null => return Err("the change has no value".to_string()),
        number => number.to_string(),
    };
    let (node, netns) = node_of(plant, change)?;
    let before = netns.sysctl(name).map_err(|e| e.to_string())?;
    netns.set_sysctl(name, &value).map_err(|e| e.to_string())?;
    Ok(format!("{name} in {node}: {before} -> {value}"))
}

/// The node in whose namespace a change is to be made.
fn node_of<'a>(plant: &'a Plant, change: &Value) -> Result<(&'a String, &'a Netns), String> {
    let inode = change["netns"]
        .as_u64()
        .ok_or("the change names no namespace")?;
    let mut nodes = plant.nodes().iter();
    nodes
        .find(|(_, netns)| netns.inode() == inode)
        .ok_or_else(|| match inode {
            0 => "a change of the whole host is not the lab's to make".to_string(),
            _ => format!("namespace {inode} is not the lab's"),
        })
}

/// The rules of the lab have no other purpose than to drop or to reject.
fn allow_syns(plant: &Plant, change: &Value) -> Result<String, String> {
    let (node, netns) = node_of(plant, change)?;
    if plant.scenario.nodes[node].nft.is_none() {
        return Err(format!("{node} has no rules of the lab"));
    }
    faults::flush_rules(netns).map_err(|e| e.to_string())?;
    Ok(format!("the rules of {node} are gone"))
}

fn client_closes_first(plant: &mut Plant, change: &Value) -> Result<String, String> {
    let port = port_of(&change["at"]).ok_or("the change names no port")?;
    let clients = plant.scenario.clients.iter_mut();
    let mut changed = Vec::new();
    for client in clients.filter(|c| c.port == port && c.closes == Closer::Server) {
        client.closes = Closer::Client;
        changed.push(client.name.clone());
    }
    if changed.is_empty() {
        return Err(format!("no server closes first on port {port}"));
    }
    // The sockets that are in TIME_WAIT now would refuse SYNs for another minute.
    for netns in plant.nodes().values() {
        let sport = format!(":{port}");
        let kill = ["ss", "-K", "-n", "state", "time-wait", "sport", "=", &sport];
        let inside = ["ip", "netns", "exec", netns.name()];
        run(inside.into_iter().chain(kill)).map_err(|e| e.to_string())?;
    }
    Ok(format!("closes first: {}", changed.join(", ")))
}

fn untrack(plant: &Plant, change: &Value) -> Result<String, String> {
    let (node, netns) = node_of(plant, change)?;
    let port = port_of(&change["at"]).ok_or("the change names no port")?;
    faults::untrack(netns, port).map_err(|e| e.to_string())?;
    Ok(format!("{node} does not track port {port}"))
}

fn pass_syns(plant: &mut Plant) -> Result<String, String> {
    let links = rejoin_where(
        plant,
        |wire| wire.syn_loss > 0.0,
        |wire| wire.syn_loss = 0.0,
    )?;
    match links {
        None => Err("no link of the lab loses SYNs".to_string()),
        Some(links) => Ok(format!("the path {links} lets SYNs pass")),
    }
}

fn backlog(plant: &mut Plant, change: &Value, finding: &Value) -> Result<String, String> {
    let value = change["value"].as_u64().and_then(|v| u32::try_from(v).ok());
    let value = value.ok_or("the change has no backlog")?;
    let server = server_mut(plant, change, finding)?;
    let before = std::mem::replace(&mut server.backlog, value);
    let (name, node) = (server.name.clone(), server.node.clone());
    // The kernel cuts a backlog to somaxconn without a word.
    const LIMIT: &str = "net.core.somaxconn";
    let netns = &plant.nodes()[&node];
    let limit = netns.sysctl(LIMIT).map_err(|e| e.to_string())?;
    let mut done = format!("backlog of {name}: {before} -> {value}");
    if limit.parse::<u32>().is_ok_and(|limit| limit < value) {
        netns
            .set_sysctl(LIMIT, &value.to_string())
            .map_err(|e| e.to_string())?;
        done += &format!(", {LIMIT} in {node}: {limit} -> {value}");
    }
    Ok(done)
}

fn accept_faster(plant: &mut Plant, change: &Value, finding: &Value) -> Result<String, String> {
    let server = server_mut(plant, change, finding)?;
    if server.accept_ms == 0.0 && server.stall_ms == 0.0 {
        return Err(format!("{} accepts as fast as it can already", server.name));
    }
    let done = format!(
        "{} accepts at once, not one per {} ms",
        server.name, server.accept_ms
    );
    (server.accept_ms, server.stall_ms) = (0.0, 0.0);
    Ok(done)
}

fn start_listener(plant: &mut Plant, change: &Value, finding: &Value) -> Result<String, String> {
    let port = [
        &change["at"],
        &change["listener"],
        &finding["scope"]["destination"],
    ]
    .into_iter()
    .find_map(port_of)
    .ok_or("the change names no port")?;
    let client = plant.scenario.clients.iter().find(|c| c.port == port);
    let node = client
        .map(|c| c.to.clone())
        .ok_or_else(|| format!("nobody connects to port {port}"))?;
    if plant
        .scenario
        .servers
        .iter()
        .any(|s| s.node == node && s.port == port)
    {
        return Err(format!("port {port} of {node} has a listener already"));
    }
    plant
        .scenario
        .servers
        .push(ServerSpec::plain("started", &node, port));
    Ok(format!("a server listens on port {port} of {node}"))
}

fn keep_options(plant: &mut Plant) -> Result<String, String> {
    let links = rejoin_where(
        plant,
        |wire| wire.strip_options,
        |wire| wire.strip_options = false,
    )?;
    match links {
        None => Err("no link of the lab strips options".to_string()),
        Some(links) => Ok(format!("the box on the path {links} lets options pass")),
    }
}

/// Makes the emulated links anew that do something, without it; gives their names, if any.
fn rejoin_where(
    plant: &mut Plant,
    does: impl Fn(&Wire) -> bool,
    without: impl Fn(&mut Wire),
) -> Result<Option<String>, String> {
    let links = plant.scenario.links.iter().enumerate();
    let doing = links.filter(|(_, link)| link.path.iter().chain(&link.back).any(&does));
    let doing: Vec<usize> = doing.map(|(index, _)| index).collect();
    let mut done = Vec::new();
    for index in doing {
        plant.rejoin(index, &without).map_err(|e| e.to_string())?;
        done.push(plant.scenario.links[index].between.join("-"));
    }
    Ok((!done.is_empty()).then(|| done.join(", ")))
}

/// The server that a change is about: by the listener it names, or that of the finding.
fn server_mut<'a>(
    plant: &'a mut Plant,
    change: &Value,
    finding: &Value,
) -> Result<&'a mut ServerSpec, String> {
    let port = port_of(&change["listener"])
        .or_else(|| port_of(&finding["scope"]["listener"]))
        .ok_or("the change names no listener")?;
    let servers = &mut plant.scenario.servers;
    // Of workers that share a port, the one that the finding names.
    let named = |s: &ServerSpec| finding["scope"]["comm"].as_str() == Some(&s.name);
    let at = servers.iter().position(|s| s.port == port && named(s));
    let at = at.or_else(|| servers.iter().position(|s| s.port == port));
    at.and_then(|at| servers.get_mut(at))
        .ok_or_else(|| format!("no server of the lab listens on port {port}"))
}
