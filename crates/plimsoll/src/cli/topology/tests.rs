//! Which flags make which topology, and what is refused or warned about.

use engine::{Offload, Pool};

use super::*;

const HOST: Host = Host {
    cores: Cores { affinity: 4, quota: None },
    descriptors: None,
    memory: Memory { bytes: 64 << 30, is_limited: false },
    uring: || Ok(()),
};

fn on(model: Model) -> Flags {
    Flags { model: Some(model), ..Flags::default() }
}

fn settle(flags: &Flags) -> Settled {
    flags.resolve_on(&HOST).unwrap_or_else(|error| panic!("{flags:?}: {error}"))
}

fn number(n: usize) -> Option<Count> {
    Some(Count::Number(n))
}

#[test]
fn the_default_is_a_reactor_per_core_and_workers_as_the_work_needs() {
    let settled = Flags::default().resolve_on(&Host { descriptors: Some(1064), ..HOST }).unwrap();
    let topology = settled.topology;
    assert_eq!((topology.reactors, topology.spread, topology.connections), (4, Spread::ReusePort, 250));
    assert_eq!((topology.driver, topology.workers, topology.most_workers), (Kind::Epoll, 4, 1024));
    assert_eq!(topology.offload, Offload::Measured);
    assert!(settled.warnings.is_empty());
}

#[test]
fn the_help_names_the_numbers_that_are_in_the_code() {
    let command = <Flags as clap::Args>::augment_args(clap::Command::new("serve"));
    for (flag, said) in [
        ("reactors", format!("1 to {MOST_REACTORS} ")),
        ("workers", format!("up to {MOST_WORKERS};")),
        ("most_workers", format!("up to {MOST_WORKERS} [default: {MOST_ELASTIC}]")),
        ("queue_capacity", format!("[default: {QUEUE_CAPACITY}]")),
    ] {
        let help = command.get_arguments().find(|known| known.get_id() == flag).unwrap().get_help().unwrap();
        assert!(help.to_string().contains(&said), "{flag}: {help}");
    }
}

#[test]
fn each_model_is_its_row_and_every_axis_says_why() {
    for model in Model::ALL {
        let settled = settle(&on(*model));
        let row = model.row(4, settled.topology.connections);
        let row = if model.has_one_reactor() { row } else { row.following(4) };
        assert_eq!(settled.topology, row, "{model}");
        assert!(settled.choices.iter().all(|choice| !choice.why.is_empty()), "{model}");
    }
}

#[test]
fn each_flag_overrides_its_own_value_only() {
    let flags = Flags {
        spread: Some(Spread::ReusePort),
        reactors: Some(3),
        connections: Some(7),
        ..on(Model::MultiReactor)
    };
    let topology = settle(&flags).topology;
    let row = Model::MultiReactor.row(4, 7);
    assert_eq!(topology, Topology { reactors: 3, spread: Spread::ReusePort, ..row });

    let flags = Flags {
        workers: number(30),
        pool: Some(Pool::Shared),
        queue: Some(Queue::LockFree),
        order: Some(Order::Priority),
        queue_capacity: Some(5),
        connections: Some(7),
        ..on(Model::MultiReactorPool)
    };
    let row = Model::MultiReactorPool.row(4, 7).following(4);
    let expected = Topology {
        workers: 30,
        pool: Pool::Shared,
        queue: Queue::LockFree,
        order: Order::Priority,
        queue_capacity: 5,
        ..row
    };
    assert_eq!(settle(&flags).topology, expected);
}

#[test]
fn the_number_of_workers_follows_the_work_or_stays() {
    let auto = Flags { workers: Some(Count::Auto), ..on(Model::ReactorPool) };
    let topology = settle(&auto).topology;
    assert_eq!((topology.workers, topology.most_workers, topology.is_elastic()), (4, 1024, true));
    let topology = settle(&Flags { most_workers: Some(2), ..Flags::default() }).topology;
    assert_eq!((topology.workers, topology.most_workers), (2, 2));
    let fixed = settle(&Flags { workers: number(8), most_workers: Some(9), ..on(Model::Auto) });
    assert_eq!((fixed.topology.workers, fixed.topology.is_elastic()), (8, false));
    assert!(fixed.warnings[0].contains("--workers auto"), "{:?}", fixed.warnings);
    for most in [0, 5000] {
        let refused = Flags { most_workers: Some(most), ..Flags::default() }.resolve_on(&HOST);
        assert!(refused.is_err_and(|error| error.to_string().contains("must be 1 to 4096")));
    }
}

#[test]
fn connections_move_where_there_are_several_reactors() {
    for model in Model::ALL {
        let topology = settle(&on(*model)).topology;
        let several = topology.reactors > 1;
        assert_eq!(topology.rebalances(), several, "{model}");
        let off = Flags { rebalance: Some(Rebalance::Off), ..on(*model) };
        assert!(!settle(&off).topology.rebalances(), "{model}");
    }
    let one = Flags { reactors: Some(1), ..on(Model::MultiReactor) };
    assert!(!settle(&one).topology.rebalances());
}

#[test]
fn reactors_follow_the_processors_unless_their_number_is_stated() {
    let host = Host { cores: Cores { affinity: 4, quota: Some(0.5) }, ..HOST };
    let settle = |flags: Flags| flags.resolve_on(&host).unwrap().topology;
    let of = |topology: Topology| (topology.reactors, topology.most_reactors, topology.follows_processors());
    for model in [Model::Auto, Model::MultiReactor, Model::ReusePortPool, Model::Proactor] {
        assert_eq!(of(settle(on(model))), (1, 4, true), "{model}");
        assert_eq!(of(settle(Flags { reactors: Some(2), ..on(model) })), (2, 0, false), "{model}");
        let off = Flags { rebalance: Some(Rebalance::Off), ..on(model) };
        assert_eq!(of(settle(off)), (1, 0, false), "{model}");
    }
    assert_eq!(of(settle(on(Model::Reactor))), (1, 0, false));
    assert_eq!(of(settle(on(Model::ThreadPool))), (0, 0, false));
    // Each of the two of the start can hold half of all connections, however many there may come to be.
    let cores = Cores { affinity: 64, quota: Some(2.0) };
    let many = Host { cores, descriptors: Some(65_600), ..HOST };
    let topology = Flags::default().resolve_on(&many).unwrap().topology;
    assert_eq!((topology.reactors, topology.most_reactors, topology.connections), (2, 64, 32_768));
}

#[test]
fn connections_fit_into_the_memory_or_it_is_said() {
    let host = Host { memory: Memory { bytes: 512 << 20, is_limited: true }, ..HOST };
    let settled = Flags::default().resolve_on(&host).unwrap();
    let all = settled.topology.connections as u64 * 4 * host::CONNECTION_BYTES;
    assert!((250 << 20..=256 << 20).contains(&all), "{all} bytes");
    let why = &settled.choices.iter().find(|choice| choice.setting == "connections").unwrap().why;
    assert_eq!(why, "with two buffers each, half of the memory (512.0 MiB, limit of the cgroup)");
    assert!(settled.warnings.is_empty());
    let many = Flags { connections: Some(10_000), ..Flags::default() };
    let settled = many.resolve_on(&host).unwrap();
    assert_eq!(settled.topology.connections, 10_000);
    assert!(
        settled.warnings[0].starts_with("--connections 10000: they may come to"),
        "{:?}",
        settled.warnings
    );
    assert!(many.resolve_on(&HOST).unwrap().warnings.is_empty());
}

#[test]
fn reactors_that_are_started_later_bring_no_more_than_fits_into_the_memory() {
    let memory = Memory { bytes: 512 << 20, is_limited: true };
    for (affinity, quota) in [(4, 0.5), (64, 2.0), (1024, 1.0), (8, 8.0)] {
        let host = Host { cores: Cores { affinity, quota: Some(quota) }, memory, ..HOST };
        let topology = Flags::default().resolve_on(&host).unwrap().topology;
        let tables: usize = (0..topology.owners()).map(|reactor| topology.connections_of(reactor)).sum();
        let buffers = topology.all_connections(topology.owners()) as u64 * host::CONNECTION_BUFFERS;
        let all = tables as u64 * host::CONNECTION_SLOT + buffers;
        assert!(all <= 256 << 20, "{all} bytes with a mask of {affinity}");
        // Of the 7,489 that would fit on as many reactors as processors a large mask leaves most.
        assert!(topology.all_connections(topology.reactors) > 4700, "{topology:?}");
    }
    // A number that is stated is what each of them can hold.
    let cores = Cores { affinity: 64, quota: Some(2.0) };
    let stated = Flags { connections: Some(1000), ..Flags::default() };
    let topology = stated.resolve_on(&Host { cores, memory, ..HOST }).unwrap().topology;
    assert_eq!((topology.connections_of(63), topology.all_connections(64)), (1000, 64_000));
}

#[test]
fn another_driver_brings_what_it_needs() {
    let blocking = Flags { driver: Some(Kind::Blocking), ..on(Model::ReusePort) };
    let topology = settle(&blocking).topology;
    assert_eq!((topology.spread, topology.reactors, topology.workers), (Spread::Acceptor, 0, 64));
    let epoll = Flags { driver: Some(Kind::Epoll), ..on(Model::ThreadPool) };
    let topology = settle(&epoll).topology;
    assert_eq!((topology.spread, topology.reactors, topology.workers), (Spread::ReusePort, 4, 0));
    let uring = Flags { driver: Some(Kind::Uring), ..on(Model::MultiReactorPool) };
    let row = Model::MultiReactorPool.row(4, 16).following(4);
    let topology = settle(&Flags { connections: Some(16), ..uring }).topology;
    assert_eq!(topology, Topology { driver: Kind::Uring, ..row });
}

#[test]
fn a_value_from_the_row_of_another_model_says_whose_it_is() {
    let why = |flags: Flags, setting: &str| {
        let choices = settle(&flags).choices;
        choices.into_iter().find(|choice| choice.setting == setting).unwrap().why
    };
    let epoll = || Flags { driver: Some(Kind::Epoll), ..on(Model::ThreadPool) };
    assert_eq!(why(epoll(), "spread"), "as in reuseport, for --driver epoll");
    assert_eq!(why(epoll(), "workers"), "as in reuseport, for --driver epoll");
    assert_eq!(why(Flags { spread: Some(Spread::Shared), ..epoll() }, "spread"), "--spread");
    let blocking = Flags { driver: Some(Kind::Blocking), ..on(Model::MultiReactor) };
    assert_eq!(why(blocking, "queue"), "as in thread-pool, for --driver blocking");
    let same = Flags { driver: Some(Kind::Uring), ..on(Model::ReusePort) };
    assert_eq!(why(same, "spread"), "the model's");
}

#[test]
fn the_processors_are_among_what_was_chosen() {
    let flags = Flags { cpus: Some(Cpus(vec![2, 0])), ..Flags::default() };
    let settled = settle(&flags);
    let line = settled.choices.iter().find(|choice| choice.setting == "cpus").unwrap();
    assert_eq!((line.value.as_str(), line.why.as_str()), ("2,0", "--cpus"));
    assert!(settle(&Flags::default()).choices.iter().all(|choice| choice.setting != "cpus"));
}

#[test]
fn without_io_uring_epoll_does_the_work_and_it_is_said() {
    let host = Host { uring: || Err(std::io::ErrorKind::PermissionDenied.into()), ..HOST };
    for flags in [on(Model::Proactor), Flags { driver: Some(Kind::Uring), ..on(Model::Reactor) }] {
        let settled = flags.resolve_on(&host).unwrap();
        assert_eq!(settled.topology.driver, Kind::Epoll);
        assert_eq!(settled.warnings.len(), 1, "{:?}", settled.warnings);
        assert!(settled.warnings[0].starts_with("io_uring is not to be had here (permission denied)"));
    }
}

#[test]
fn what_says_nothing_draws_a_warning() {
    for (flags, expected) in [
        (Flags { pool: Some(Pool::Shared), ..on(Model::Reactor) }, "--pool says nothing without workers"),
        (Flags { queue: Some(Queue::Mutex), ..on(Model::Reactor) }, "--queue says nothing without workers"),
        (Flags { order: Some(Order::Lifo), ..on(Model::ReusePort) }, "--order says nothing without workers"),
        (
            Flags { balance: Some(engine::Balance::LeastBusy), ..on(Model::ReusePort) },
            "--balance says nothing with --spread reuseport",
        ),
        (
            Flags { rebalance: Some(Rebalance::On), ..on(Model::Reactor) },
            "--rebalance says nothing with one reactor",
        ),
        (
            Flags { rebalance: Some(Rebalance::Off), ..on(Model::ThreadPool) },
            "--rebalance says nothing with --driver blocking",
        ),
        (
            Flags { reactors: Some(2), ..on(Model::ThreadPool) },
            "--reactors says nothing with --driver blocking",
        ),
        (
            Flags { pool: Some(Pool::Shared), ..on(Model::ThreadPool) },
            "--pool says nothing with --driver blocking",
        ),
        (
            Flags { queue_capacity: Some(9), ..on(Model::ThreadPerConnection) },
            "--queue-capacity says nothing with --queue none",
        ),
        (
            Flags { workers: Some(Count::Auto), ..on(Model::ThreadPool) },
            "--workers auto says nothing with --driver blocking",
        ),
        (
            Flags { balance: Some(engine::Balance::LeastBusy), reactors: Some(1), ..on(Model::MultiReactor) },
            "--balance says nothing with one reactor",
        ),
        (
            Flags { order: Some(Order::Priority), ..on(Model::ReactorPool) },
            "--order priority says nothing without --class",
        ),
        (
            Flags { class: vec![("/".into(), engine::Class::Low)], ..on(Model::ReactorPool) },
            "--class orders nothing without --order priority",
        ),
    ] {
        let warnings = settle(&flags).warnings;
        assert!(warnings.len() == 1 && warnings[0].starts_with(expected), "{expected}: {warnings:?}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_the_reason() {
    for (flags, expected) in [
        (
            Flags { reactors: Some(0), ..Flags::default() },
            "--reactors 0: must be at least 1; for threads that own connections use --model thread-pool",
        ),
        (Flags { reactors: Some(1025), ..Flags::default() }, "--reactors 1025: must be at most 1024"),
        (Flags { connections: Some(0), ..Flags::default() }, "--connections 0: must be at least 1"),
        (Flags { workers: number(4097), ..Flags::default() }, "--workers 4097: must be at most 4096"),
        (Flags { workers: number(4097), ..on(Model::ThreadPool) }, "--workers 4097: must be at most 4096"),
        (
            Flags { workers: number(1), queue_capacity: Some(0), ..Flags::default() },
            "--queue-capacity 0: must be at least 1; for no queue use --workers 0",
        ),
        (
            Flags { reactors: Some(2), ..on(Model::Reactor) },
            "--reactors 2: --model reactor has one; for several use --model multi-reactor or reuseport",
        ),
        (
            Flags { workers: number(0), ..on(Model::ThreadPool) },
            "--workers 0: with --driver blocking the workers own the connections; give at least 1",
        ),
        (
            Flags { spread: Some(Spread::Shared), ..on(Model::ThreadPool) },
            "--spread shared: with --driver blocking one acceptor hands connections to threads; use --spread acceptor, \
             or --driver epoll",
        ),
        (
            Flags { queue: Some(Queue::Stealing), order: Some(Order::Lifo), ..on(Model::ReactorPool) },
            "--order lifo: queues that are stolen from are first in, first out; use --queue mutex",
        ),
        (
            Flags { queue: Some(Queue::None), ..on(Model::ReactorPool) },
            "--queue none: only with --driver blocking can work have a thread of its own; use mutex, lock-free or \
             stealing",
        ),
    ] {
        assert_eq!(flags.resolve_on(&HOST).err().unwrap().to_string(), expected);
    }
}

#[test]
fn the_largest_number_of_each_flag_is_refused_and_not_wrapped_around() {
    let pool = || on(Model::ReactorPool);
    for n in [1 << 41, 1 << 62, 1 << 63, usize::MAX] {
        for flags in [
            Flags { connections: Some(n), ..on(Model::ReusePort) },
            Flags { connections: Some(n), ..on(Model::ThreadPool) },
            Flags { queue_capacity: Some(n), ..pool() },
            Flags { queue_capacity: Some(n), ..on(Model::ThreadPool) },
            Flags { reactors: Some(n), ..on(Model::ReusePort) },
            Flags { workers: number(n), ..pool() },
            Flags { most_workers: Some(n), ..on(Model::Auto) },
        ] {
            assert!(flags.resolve_on(&HOST).is_err(), "{flags:?}");
        }
    }
    let largest = Flags { queue_capacity: Some(1 << 20), ..pool() };
    assert_eq!(settle(&largest).topology.queue_capacity, 1 << 20);
    let refused = Flags { queue_capacity: Some((1 << 20) + 1), ..pool() }.resolve_on(&HOST);
    assert_eq!(refused.err().unwrap().to_string(), "--queue-capacity 1048577: must be 1 to 1048576");
}

#[test]
fn connections_for_which_there_is_no_memory_at_all_are_refused() {
    let host = Host { memory: Memory { bytes: 1 << 30, is_limited: true }, ..HOST };
    let many = Flags { connections: Some(1 << 20), reactors: Some(1), ..on(Model::Reactor) };
    assert_eq!(
        many.resolve_on(&host).err().unwrap().to_string(),
        "--connections 1048576: 3.0 GiB are reserved for them at the start, more than the memory (1.0 GiB, limit of \
         the cgroup)"
    );
    // Threads reserve nothing.
    let threads = Flags { connections: Some(1 << 20), ..on(Model::ThreadPool) };
    assert!(threads.resolve_on(&host).is_ok());
}

#[test]
fn few_descriptors_still_leave_one_connection() {
    let settled = Flags::default().resolve_on(&Host { descriptors: Some(16), ..HOST }).unwrap();
    assert_eq!(settled.topology.connections, 1);
}
