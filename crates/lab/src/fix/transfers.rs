//! Advice about transfers: queues, paths, congestion control, how applications read and write.

use std::net::IpAddr;

use serde_json::Value;

use super::{node_of, server_mut};
use crate::judge::port_of;
use crate::plant::{Plant, faults};

/// Gives the shaper of a device a longer queue.
pub(super) fn queue_limit(plant: &mut Plant, change: &Value) -> Result<String, String> {
    let node = node_of(plant, change)?.0.clone();
    let bytes = change["bytes"].as_u64().filter(|b| *b > 0);
    let bytes = bytes.ok_or("the change has no bytes")?;
    let device = change["device"].as_str();
    let links = &mut plant.scenario.links;
    let index = links.iter().position(|link| {
        let [from, to] = &link.between;
        let is_it = device.is_none_or(|d| d == format!("to-{to}"));
        link.tbf.is_some() && *from == node && is_it
    });
    let index = index.ok_or_else(|| format!("{node} has no shaper on that device"))?;
    let Some(tbf) = &mut links[index].tbf else {
        return Err("the link has no shaper".to_string());
    };
    let before = std::mem::replace(&mut tbf.limit_kb, bytes.div_ceil(1_000));
    let after = tbf.limit_kb;
    plant.shape(index).map_err(|e| e.to_string())?;
    Ok(format!(
        "limit of the shaper in {node}: {before} kB -> {after} kB"
    ))
}

/// Lets every emulated path carry all packets.
pub(super) fn repair_path(plant: &mut Plant) -> Result<String, String> {
    let lossy = plant.scenario.links.iter().enumerate().filter(|(_, link)| {
        let mut wires = link.path.iter().chain(&link.back);
        wires.any(|wire| wire.loss > 0.0 || wire.reorder > 0.0 || wire.cut_after_ms.is_some())
    });
    let lossy: Vec<usize> = lossy.map(|(index, _)| index).collect();
    let mut done = Vec::new();
    for index in lossy {
        plant
            .rejoin(index, |wire| {
                (wire.loss, wire.reorder) = (0.0, 0.0);
                wire.cut_after_ms = None;
            })
            .map_err(|e| e.to_string())?;
        done.push(plant.scenario.links[index].between.join("-"));
    }
    if done.is_empty() {
        Err("no link of the lab loses packets".to_string())
    } else {
        Ok(format!("the path {} loses nothing", done.join(", ")))
    }
}

/// Lets the connections of a node with an address agree on smaller segments.
pub(super) fn clamp_mss(plant: &Plant, change: &Value) -> Result<String, String> {
    let to: IpAddr = change["to"]
        .as_str()
        .and_then(|to| to.parse().ok())
        .ok_or("the change names no address")?;
    let mss = change["mss"].as_u64().and_then(|m| u16::try_from(m).ok());
    let mss = mss.ok_or("the change has no segment size")?;
    let (node, netns) = node_of(plant, change)?;
    faults::clamp_mss(netns, to, mss).map_err(|e| e.to_string())?;
    Ok(format!("SYNs between {node} and {to} offer {mss} bytes"))
}

/// Lets all that send from a node use another congestion control.
pub(super) fn congestion(plant: &mut Plant, change: &Value) -> Result<String, String> {
    const DEFAULT: &str = "net.ipv4.tcp_congestion_control";
    let value = change["value"].as_str();
    let value = value.ok_or("the change names no congestion control")?;
    let (node, netns) = node_of(plant, change)?;
    let node = node.clone();
    netns
        .set_sysctl(DEFAULT, value)
        .map_err(|e| e.to_string())?;
    let scenario = &mut plant.scenario;
    // Those that choose for themselves would not notice.
    for client in scenario.clients.iter_mut().filter(|c| c.node == node) {
        client.congestion.clear();
    }
    for server in scenario.servers.iter_mut().filter(|s| s.node == node) {
        server.congestion = None;
    }
    Ok(format!("everything in {node} sends with {value}"))
}

/// Lets the clients of a server set TCP_NODELAY.
pub(super) fn no_delay(plant: &mut Plant, change: &Value) -> Result<String, String> {
    let port = port_of(&change["to"]).ok_or("the change names no port")?;
    let clients = plant.scenario.clients.iter_mut();
    let nagle = clients.filter(|c| c.port == port && c.nagle);
    let done: Vec<String> = nagle
        .map(|client| {
            client.nagle = false;
            client.name.clone()
        })
        .collect();
    if done.is_empty() {
        Err(format!("no client of port {port} has Nagle's algorithm on"))
    } else {
        Ok(format!("{} sets TCP_NODELAY", done.join(", ")))
    }
}

/// Lets a server answer without a wait.
pub(super) fn answer_faster(
    plant: &mut Plant,
    change: &Value,
    finding: &Value,
) -> Result<String, String> {
    let server = server_mut(plant, change, finding)?;
    let name = server.name.clone();
    if server.think_ms == 0.0 {
        return Err(format!("{name} answers as fast as it can already"));
    }
    server.think_ms = 0.0;
    Ok(format!("{name} answers without a wait"))
}

/// Lets a server read without a pause.
pub(super) fn read_faster(
    plant: &mut Plant,
    change: &Value,
    finding: &Value,
) -> Result<String, String> {
    let server = server_mut(plant, change, finding)?;
    let name = server.name.clone();
    if server.read_pause_ms == 0.0 {
        return Err(format!("{name} reads as fast as it can already"));
    }
    server.read_pause_ms = 0.0;
    Ok(format!("{name} reads without a pause"))
}

/// Lets the kernel size the receive buffers of all servers.
pub(super) fn receive_buffer(plant: &mut Plant) -> Result<String, String> {
    let servers = plant.scenario.servers.iter_mut();
    let fixed = servers.filter_map(|s| s.rcvbuf.take().map(|_| s.name.clone()));
    let fixed: Vec<String> = fixed.collect();
    if fixed.is_empty() {
        Err("no server sets SO_RCVBUF".to_string())
    } else {
        Ok(format!("{} does not set SO_RCVBUF", fixed.join(", ")))
    }
}

/// Lets a server read requests to their end before it answers.
pub(super) fn read_to_end(
    plant: &mut Plant,
    change: &Value,
    finding: &Value,
) -> Result<String, String> {
    let server = server_mut(plant, change, finding)?;
    let name = server.name.clone();
    if !std::mem::take(&mut server.answers_early) {
        return Err(format!("{name} reads requests to their end already"));
    }
    Ok(format!("{name} reads requests to their end"))
}

/// Lets a server close without SO_LINGER 0.
pub(super) fn close_gently(
    plant: &mut Plant,
    change: &Value,
    finding: &Value,
) -> Result<String, String> {
    let server = server_mut(plant, change, finding)?;
    let name = server.name.clone();
    if !std::mem::take(&mut server.linger_zero) {
        return Err(format!("{name} closes without SO_LINGER 0 already"));
    }
    Ok(format!("{name} closes without SO_LINGER 0"))
}
