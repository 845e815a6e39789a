//! A topology as a small drawing: who accepts, who owns connections, who handles requests.

use std::fmt::Write;

use engine::topology::Queue;
use engine::{Kind, Offload, Pool, Spread, Topology};

/// Reactors drawn one by one; of more, the first and the last.
const DRAWN: usize = 4;

/// Draws a topology, a line for each thing.
pub(crate) fn diagram(topology: &Topology) -> String {
    let mut out = String::from("  clients\n     |\n");
    if topology.driver == Kind::Blocking {
        threads(&mut out, topology)
    } else {
        reactors(&mut out, topology)
    }
    out
}

fn line(out: &mut String, left: &str, right: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{}", format!("{left:<28}{right}").trim_end());
}

fn queue(topology: &Topology) -> String {
    format!("{}, {}, at most {}", topology.queue, topology.order, topology.queue_capacity)
}

fn threads(out: &mut String, topology: &Topology) {
    line(out, "  acceptor", "accepts connections");
    if topology.queue == Queue::None {
        line(out, "     |", "starts a thread for each");
        line(
            out,
            "  up to {} threads".replace("{}", &topology.workers.to_string()).as_str(),
            "each serves one connection to its end",
        );
        return;
    }
    line(out, "     |", "");
    line(out, "   queue", &format!("of connections: {}", queue(topology)));
    line(out, "     |", "");
    line(out, &format!("  {} threads", topology.workers), "each serves one connection at a time");
}

fn reactors(out: &mut String, topology: &Topology) {
    match topology.spread {
        Spread::Acceptor => {
            line(out, "  acceptor", &format!("accepts connections, hands them over: {}", topology.balance));
        }
        Spread::ReusePort => {
            line(out, "  kernel", "spreads connections over a listening socket for each reactor")
        }
        Spread::Shared => line(out, "  one listening socket", "the kernel wakes one of the reactors"),
    }
    let each = format!("{}, up to {} connections each", topology.driver, topology.connections);
    let handled = if topology.workers == 0 { "handle the requests themselves" } else { "" };
    let pool = topology.workers > 0 && topology.pool == Pool::PerReactor;
    let count = topology.reactors;
    for index in 0..count {
        if count > DRAWN && index > 1 && index + 1 < count {
            if index == 2 {
                line(out, "     :", "");
            }
            continue;
        }
        let right = match index {
            0 => each.as_str(),
            1 => handled,
            _ => "",
        };
        line(out, &format!("     +-- reactor {index}"), right);
        if pool {
            line(out, "     |      +-- queue", if index == 0 { "its own workers'" } else { "" });
            line(out, &format!("     |      +-- {}", workers(topology)), "");
        }
    }
    if count == 1 && !handled.is_empty() {
        line(out, "", handled);
    }
    if topology.workers == 0 {
        return;
    }
    if pool {
        line(out, "", &format!("queues: {}", queue(topology)));
        return;
    }
    let which = match topology.offload {
        Offload::Declared => "requests",
        Offload::Measured => "requests whose handlers are slow or wait",
    };
    line(out, "     |", which);
    line(out, "   queue", &queue(topology));
    line(out, "     |", "");
    line(out, &format!("  {}", workers(topology)), "handle requests, and send answers home");
}

fn workers(topology: &Topology) -> String {
    match (topology.is_elastic(), topology.workers) {
        (true, least) => format!("{least} to {} workers", topology.most_workers),
        (false, 1) => "1 worker".into(),
        (false, workers) => format!("{workers} workers"),
    }
}

#[cfg(test)]
mod tests {
    use engine::Model;

    use super::*;

    #[test]
    fn every_model_is_drawn_with_its_threads() {
        for model in Model::ALL {
            let topology = model.row(4, 1000);
            let drawing = diagram(&topology);
            assert_eq!(drawing.contains("acceptor"), topology.spread == Spread::Acceptor, "{drawing}");
            assert_eq!(drawing.matches("reactor ").count(), topology.reactors, "{drawing}");
            assert_eq!(drawing.contains("workers"), topology.pools() > 0, "{drawing}");
            assert!(drawing.lines().all(|line| line.len() <= 100 && line.trim_end() == line), "{drawing}");
        }
    }

    #[test]
    fn many_reactors_take_little_room() {
        let drawing = diagram(&Model::ReusePort.row(64, 10));
        assert!(drawing.lines().count() < 12 && drawing.contains("reactor 63"), "{drawing}");
    }
}
