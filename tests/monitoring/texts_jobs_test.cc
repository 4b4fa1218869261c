// The texts' own kinds of program, on real threads: bulk-synchronous jobs, and a master with workers; one rank hangs. Each rank is a
// process to the recording: it has tables and reports of its own.
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "monitoring/model/snapshot.h"
#include "monitoring/progress/texts/comparison.h"
#include "monitoring/sight/module.h"
#include "monitoring/sight/reporter.h"
#include "tests/monitoring/hand_clock.h"

namespace kintsugi::progress {
namespace {

using sight::Module;
using sight::Task;
using sight::Wait;
using sight::WaitKind;

constexpr sight::Site kJob{"job.rank"}, kCompute{"job.compute"}, kExchange{"job.exchange"},
    kReduce{"job.reduce"};
constexpr sight::Site kMaster{"job.master"}, kCollect{"job.collect"}, kFetch{"job.fetch"},
    kReply{"job.reply"};
/// The phases of a job without a loop.
constexpr std::array kPhases{sight::Site{"job.read"}, sight::Site{"job.sort"}, sight::Site{"job.merge"},
                             sight::Site{"job.write"}};

/// Where a rank hangs.
struct Hang {
  size_t rank = 0;
  size_t place = 0;  ///< number of the step in an iteration, or of the phase
  int iteration = 0;
};

/// Threads that wait for each other, and how far they have come.
class Job {
 public:
  Job(size_t ranks, Hang hang) : hang_(hang), sent_(ranks, 0), arrived_(ranks, 0), waits_(ranks) {}

  size_t ranks() const { return waits_.size(); }
  bool hangs(size_t rank, size_t place, int iteration) const {
    return rank == hang_.rank && place == hang_.place && iteration == hang_.iteration;
  }
  /// False: the job is over, whatever was waited for.
  bool wait(size_t rank, std::function<bool()> ready) {
    std::unique_lock lock(mutex_);
    waits_[rank] = ready;
    changed_.notify_all();
    changed_.wait(lock, [&] { return over_ || ready(); });
    waits_[rank] = nullptr;
    return !over_;
  }
  bool hang(size_t rank) {
    return wait(rank, [] { return false; });
  }
  void send(size_t from, int iteration) { set(sent_[from], iteration); }
  bool receive(size_t rank, int iteration) {
    const size_t left = (rank + ranks() - 1) % ranks();
    return wait(rank, [this, left, iteration] { return sent_[left] >= iteration; });
  }
  void arrive(size_t rank, int iteration) { set(arrived_[rank], iteration); }
  bool all_arrived(size_t rank, int iteration) {
    return wait(rank, [this, iteration] {
      return std::ranges::all_of(arrived_, [&](int at) { return at >= iteration; });
    });
  }
  bool arrived(size_t rank, size_t at, int iteration) {
    return wait(rank, [this, at, iteration] { return arrived_[at] >= iteration; });
  }
  /// Nobody can go on any more.
  void wait_until_all_stand_still() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      return std::ranges::all_of(waits_, [](const auto& ready) { return ready && !ready(); });
    });
  }
  void end() {
    const std::lock_guard lock(mutex_);
    over_ = true;
    changed_.notify_all();
  }

 private:
  void set(int& value, int to) {
    const std::lock_guard lock(mutex_);
    value = to;
    changed_.notify_all();
  }

  const Hang hang_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> sent_, arrived_;
  std::vector<std::function<bool()>> waits_;  ///< index: rank; what it waits for, null: it runs
  bool over_ = false;
};

/// An iteration computes, exchanges with the neighbour, and waits for all.
void iterate(Job& job, size_t rank, const Context& context) {
  const Task task{context, kJob};
  for (int iteration = 1;; ++iteration) {
    {
      const Module compute{task.context(), kCompute};
      if (job.hangs(rank, 0, iteration) && !job.hang(rank)) return;
    }
    {
      const Module exchange{task.context(), kExchange};
      if (job.hangs(rank, 1, iteration) && !job.hang(rank)) return;
      job.send(rank, iteration);
      const Wait wait{exchange.context(), WaitKind::kReceive};
      if (!job.receive(rank, iteration)) return;
    }
    const Module reduce{task.context(), kReduce};
    if (job.hangs(rank, 2, iteration) && !job.hang(rank)) return;
    job.arrive(rank, iteration);
    const Wait wait{reduce.context(), WaitKind::kResource};
    if (!job.all_arrived(rank, iteration)) return;
  }
}

/// One phase after the other; each ends when all have come to its end.
void pass_phases(Job& job, size_t rank, const Context& context) {
  const Task task{context, kJob};
  for (size_t phase = 0; phase < kPhases.size(); ++phase) {
    const Module module{task.context(), kPhases[phase]};
    if (job.hangs(rank, phase, 0) && !job.hang(rank)) return;
    job.arrive(rank, static_cast<int>(phase) + 1);
    const Wait wait{module.context(), WaitKind::kResource};
    if (!job.all_arrived(rank, static_cast<int>(phase) + 1)) return;
  }
}

/// Span of the master's that a worker was started in.
uint64_t started_in(size_t rank) {
  return 1000 + rank;
}

/// Rank 0 hands an item to each of the others and takes their results in turn; those fetch, work and reply.
void serve_or_work(Job& job, size_t rank, const Context& context) {
  Context started = context;
  if (rank != 0) started.trace.span_id = started_in(rank);
  const Task task{started, rank == 0 ? kMaster : kJob};
  for (int iteration = 1;; ++iteration) {
    if (rank == 0) {
      const Module collect{task.context(), kCollect};
      job.arrive(0, iteration);  // there are items
      for (size_t worker = 1; worker < job.ranks(); ++worker) {
        const Wait wait{collect.context(), WaitKind::kReceive, 0, started_in(worker)};
        if (!job.arrived(0, worker, iteration)) return;
      }
      continue;
    }
    {
      const Module fetch{task.context(), kFetch};
      const Wait wait{fetch.context(), WaitKind::kReceive};
      if (!job.arrived(rank, 0, iteration)) return;
    }
    {
      const Module compute{task.context(), kCompute};
      if (job.hangs(rank, 0, iteration) && !job.hang(rank)) return;
    }
    const Module reply{task.context(), kReply};
    if (job.hangs(rank, 1, iteration) && !job.hang(rank)) return;
    job.arrive(rank, iteration);
  }
}

/// The ranks that a method names when a job with this hang stands still.
using Program = void (*)(Job& job, size_t rank, const Context& context);
std::set<std::string> named(Method method, Program program, size_t ranks, Hang hang) {
  sight::HandClock clock;
  Job job(ranks, hang);
  std::vector<std::unique_ptr<sight::Recorder>> recorders;
  std::vector<std::unique_ptr<sight::Reporter>> reporters;
  std::vector<std::jthread> threads;
  for (size_t rank = 0; rank < ranks; ++rank) {
    recorders.push_back(std::make_unique<sight::Recorder>(clock, rank + 1));
    const sight::Reporting who{.kind = "chunkserver",
                               .name = "rank-" + std::to_string(rank),
                               .address = "10.0.0.1:" + std::to_string(100 + rank),
                               .server_id = rank + 1};
    reporters.push_back(std::make_unique<sight::Reporter>(*recorders.back(), who));
    threads.emplace_back([&job, program, rank, &recorder = *recorders.back()] {
      program(job, rank, recorder.root_context());
    });
  }
  job.wait_until_all_stand_still();
  Comparison comparison(method);
  model::Processes processes;
  std::vector<proto::Verdict> verdicts;
  for (int round = 0; round < 8; ++round) {
    clock.advance(2s);
    for (const auto& reporter : reporters) {
      EXPECT_TRUE(processes.accept(reporter->make(clock.now(), clock.wall_now()), clock.now()).ok());
      proto::SightReportAnswer answer;
      answer.set_all_live(true);
      reporter->delivered(answer);
    }
    verdicts = comparison.diagnose(processes.snapshot(clock.now(), 0, {}));
  }
  job.end();
  threads.clear();
  std::set<std::string> servers;
  for (const proto::Verdict& verdict : verdicts)
    servers.insert(verdict.server());
  return servers;
}

struct Score {
  int runs = 0, found = 0;
  size_t named = 0;
  double accuracy() const { return static_cast<double>(found) / runs; }
  double precision() const {
    return named == 0 ? 0 : static_cast<double>(found) / static_cast<double>(named);
  }
};

/// `first`: ranks before it do not hang.
Score score(Method method, Program program, size_t places, int iterations, size_t first = 0) {
  constexpr size_t kRanks = 8;
  constexpr int kRuns = 20;
  std::mt19937_64 random(7);
  Score score;
  for (; score.runs < kRuns; ++score.runs) {
    const Hang hang{.rank = first + random() % (kRanks - first),
                    .place = random() % places,
                    .iteration = iterations == 0
                                     ? 0
                                     : 3 + static_cast<int>(random() % static_cast<uint64_t>(iterations))};
    const std::set<std::string> servers = named(method, program, kRanks, hang);
    score.found += servers.contains("rank-" + std::to_string(hang.rank)) ? 1 : 0;
    score.named += servers.size();
  }
  return score;
}

TEST(JobsOfTheTexts, ProdometerFindsTheRankThatHangsInALoop) {
  const Score found = score(Method::kProdometer, iterate, 3, 20);
  EXPECT_GE(found.accuracy(), 0.93) << "the text's mean (Mitra 2016, table 2.3)";
  EXPECT_GE(found.precision(), 0.93);
}

TEST(JobsOfTheTexts, ProdometerFindsTheWorkerThatItsMasterWaitsFor) {
  const Score found = score(Method::kProdometer, serve_or_work, 2, 20, 1);
  EXPECT_GE(found.accuracy(), 0.93);
  EXPECT_GE(found.precision(), 0.93) << "the master waits for it by name";
}

TEST(JobsOfTheTexts, AutomaDeDFindsTheRankThatHangsWhereNothingIsRepeated) {
  for (const Method method : {Method::kAutomaDeDSemi, Method::kAutomaDeD}) {
    const Score found = score(method, pass_phases, kPhases.size(), 0);
    EXPECT_GE(found.accuracy(), 0.88) << "the text's (Laguna 2015): 44 of 50";
    if (method == Method::kAutomaDeDSemi) EXPECT_GE(found.precision(), 0.86);
  }
}

TEST(JobsOfTheTexts, AutomaDeDCannotTellRanksApartInALoop) {
  const Score found = score(Method::kAutomaDeDSemi, iterate, 3, 20);
  EXPECT_LT(found.precision(), 0.7) << "as the text on Prodometer says of it: 0.63";
}

}  // namespace
}  // namespace kintsugi::progress
