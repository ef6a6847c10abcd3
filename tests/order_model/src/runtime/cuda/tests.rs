//! Checks the rules of the bookkeeping in all interleavings.

use loom::thread;

use super::stream::Stream;
use super::sync::Arc;
use super::thread::run;
use super::timeline::By;
use super::uses::{self, Uses};
use crate::runtime::error::RuntimeError;

const FIRST: u32 = 1;
const SECOND: u32 = 2;

/// Memory as the library has it: with its uses, and shared with the graphs that have it.
#[derive(Default)]
struct Memory {
    uses: Uses,
}

/// Runs a model with two threads, 1 and 2. The first spawns the second.
fn model(
    first: impl Fn(&Arc<Stream>, &Arc<Memory>) + Send + Sync + 'static,
    second: impl Fn(&Arc<Stream>, &Arc<Memory>) + Send + Sync + Copy + 'static,
    after: impl Fn(&Arc<Stream>, &Arc<Memory>) + Send + Sync + 'static,
) {
    loom::model(move || {
        run(1, || {
            let (stream, memory) = (Stream::new(1), Arc::new(Memory::default()));
            // Thread 1 owns the stream.
            Stream::queue(&stream, 0, |_| ());
            stream.wait().expect("the driver works");
            let (their_stream, their_memory) = (stream.clone(), memory.clone());
            let other = thread::spawn(move || run(2, || second(&their_stream, &their_memory)));
            first(&stream, &memory);
            other.join().expect("the thread ends well");
            after(&stream, &memory);
        });
    });
}

/// Work that has a number and is not with the driver yet still runs, whatever the driver answers.
///
/// Code that many streams have used asks for each of them whether its work still runs, and forgets
/// it if not: the thread of the work may be preempted between its note and the call of the driver.
#[test]
fn work_that_is_not_queued_yet_still_runs() {
    model(
        |stream, memory| Stream::queue(stream, FIRST, |note| note(&memory.uses, false)),
        |stream, _| {
            // The second number of the owner, which `FIRST` gets.
            if !stream.still_runs(By::Owner, 2) {
                assert!(stream.has_done(FIRST), "running work is forgotten");
            }
        },
        |stream, memory| {
            memory.uses.wait(true).expect("the driver works");
            assert!(stream.has_done(FIRST), "what uses the memory is not waited for");
        },
    );
}

/// Memory that a graph has is not given away, also where the graph is launched and dropped in
/// another thread meanwhile: what is given away has no work left.
#[test]
fn memory_is_given_away_without_work() {
    model(
        |stream, memory| {
            let given = uses::wait_alone(memory, |memory| &memory.uses);
            // Nobody has the memory any more once it is found to be alone.
            if given.is_ok() && Arc::strong_count(memory) == 1 {
                assert!(stream.has_done(FIRST), "the graph still uses the memory");
            }
            assert!(matches!(given, Ok(()) | Err(RuntimeError::BufferShared)));
        },
        // The graph has the reference of this thread, which goes when the thread ends.
        |stream, memory| Stream::queue(stream, FIRST, |note| note(&memory.uses, true)),
        |stream, memory| {
            uses::wait_alone(memory, |memory| &memory.uses).expect("the graph is gone");
            assert!(stream.has_done(FIRST));
        },
    );
}

/// A launch sees what a graph noted before it was dropped.
#[test]
fn launches_see_what_a_graph_noted() {
    loom::model(|| {
        run(1, || {
            let (a, b) = (Stream::new(1), Stream::new(2));
            let memory = Arc::new(Memory::default());
            // All uses so far are those of thread 1 on stream `a`.
            Stream::queue(&a, 0, |note| note(&memory.uses, true));
            let graph = (b.clone(), memory.clone());
            let other = thread::spawn(move || {
                run(2, || {
                    let (stream, memory) = &graph;
                    memory.uses.order(stream, true).expect("the driver works");
                    Stream::queue(stream, FIRST, |note| note(&memory.uses, true));
                    drop(graph);
                });
            });
            if !uses::is_shared(&memory) {
                // Nobody else has the memory: the fast path, else the waiting path.
                let noted = |work| {
                    memory.uses.is_alone(&a) && memory.uses.note_at_once(&a, work, true)
                };
                if !Stream::queue_at_once(&a, SECOND, noted) {
                    memory.uses.order(&a, true).expect("the driver works");
                    assert!(b.has_done(FIRST), "the launch is not behind the graph");
                    Stream::queue(&a, SECOND, |note| note(&memory.uses, true));
                } else {
                    panic!("the launch takes the memory to be alone on its stream");
                }
            }
            other.join().expect("the thread ends well");
        });
    });
}

/// Reads of several threads on one stream are all waited for before a write on another one. The
/// threads share the memory under a lock only where somebody writes.
#[test]
fn writes_wait_for_the_reads_of_all_threads() {
    model(
        |stream, memory| Stream::queue(stream, FIRST, |note| note(&memory.uses, false)),
        |stream, memory| Stream::queue(stream, SECOND, |note| note(&memory.uses, false)),
        |stream, memory| {
            let other = Stream::new(2);
            memory.uses.order(&other, true).expect("the driver works");
            assert!(stream.has_done(FIRST) && stream.has_done(SECOND));
        },
    );
}

/// A thread waits for the stream while another one queues: what is noted as ended has ended.
#[test]
fn only_what_was_queued_before_a_wait_has_ended() {
    model(
        |stream, memory| Stream::queue(stream, FIRST, |note| note(&memory.uses, true)),
        |stream, _| stream.wait().expect("the driver works"),
        |stream, memory| {
            if memory.uses.writer().is_none() {
                assert!(stream.has_done(FIRST), "running work is taken to have ended");
            }
        },
    );
}

/// The second owner of a stream goes on with the numbers of the first one: no two works have the
/// same number.
#[test]
fn a_stream_goes_to_another_thread_when_its_owner_ends() {
    loom::model(|| {
        let stream = Stream::new(1);
        // A lock that the model does not see orders nothing.
        let numbers = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let launch = |number: u64, name: u32| {
            let (stream, numbers) = (stream.clone(), numbers.clone());
            thread::spawn(move || {
                run(number, || {
                    let note = |by, work| {
                        let mut numbers = numbers.lock().expect("no thread panics");
                        assert!(!numbers.contains(&(by, work)), "two works have one number");
                        numbers.push((by, work));
                    };
                    let call = || {
                        stream.give(name);
                        Ok::<(), RuntimeError>(())
                    };
                    stream.timeline.queue(None, &stream.launch_numbers, note, call).expect("it is queued");
                });
            })
        };
        let threads = [launch(1, FIRST), launch(2, SECOND)];
        threads.into_iter().for_each(|thread| thread.join().expect("the thread ends well"));
        stream.wait().expect("the driver works");
        assert!(stream.has_done(FIRST) && stream.has_done(SECOND) && stream.timeline.is_idle());
    });
}
