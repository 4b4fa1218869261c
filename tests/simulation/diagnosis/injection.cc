#include "tests/simulation/diagnosis/injection.h"

#include <algorithm>
#include <map>

#include "common/proto/verdicts.h"
#include "monitoring/daemon/monitor.h"
#include "tests/simulation/diagnosis/drawn_fault.h"
#include "tests/simulation/diagnosis/load.h"

namespace kintsugi::simulation {
namespace {

using proto::Verdict;

constexpr Duration kWarmUp = 12s, kMoreWarmUp = 6s;  // workers' totals are reported every ten seconds
constexpr Duration kWarmUpOfPeers =
    75s;  // for comparisons of devices: they learn in six windows of ten seconds
constexpr Duration kReach = 20s, kAfterFirst = 5s, kClears = 20s, kLook = 250ms;
constexpr uint64_t kLinkBytesPerSecond = 25'000'000, kDiskBytesPerSecond = 150'000'000;

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + '"';
}

template <class Texts>
std::string list_of(const Texts& texts) {
  std::string out;
  for (const std::string& text : texts)
    out += (out.empty() ? "" : ", ") + quoted(text);
  return "[" + out + "]";
}

const char* name_of(DrawnFault::Class of) {
  switch (of) {
    case DrawnFault::Class::kPoint: return "point";
    case DrawnFault::Class::kOutside: return "outside";
    case DrawnFault::Class::kSlow: return "slow";
  }
  return "";
}

ClusterOptions options_of(uint64_t seed) {
  ClusterOptions options;
  options.seed = seed;
  options.clients = 4;
  options.monitor = true;
  options.link_bytes_per_second.assign(options.chunkservers, kLinkBytesPerSecond);
  return options;
}

struct Said {
  Verdict verdict;  ///< as it was last
  Duration after{};
};

class Injection {
 public:
  Injection(uint64_t seed, bool explain)
      : cluster_(options_of(seed)), random_(cluster_.simulation().seed_for("when")), explain_(explain) {}

  Status run() {
    for (size_t server = 0; server < cluster_.chunkservers(); ++server)
      cluster_.disk(server).set_speed(
          {.bytes_per_second = kDiskBytesPerSecond, .latency = 1ms, .sync_latency = 3ms});
    KINTSUGI_TRY(cluster_.start());
    Load load(cluster_);
    KINTSUGI_TRY(load.start());
    const auto some = Duration(static_cast<int64_t>(random_.next() % Duration(kMoreWarmUp).count()));
    DrawnFault fault(cluster_, cluster_.simulation().seed_for("fault"));
    cluster_.run_for((fault.of_class() == DrawnFault::Class::kSlow ? kWarmUpOfPeers : kWarmUp) + some);
    before_ = alarms();
    const TimePoint began = cluster_.simulation().now();
    watch(fault);
    held_up_ = load.longest_since(began + reached_.value_or(Duration{}));
    fault.end();
    const TimePoint ended = cluster_.simulation().now();
    const Status cleared = cluster_.wait_until(
        [&] { return cluster_.verdicts().empty() ? Status{} : Status{Code::kUnavailable, "they stand"}; },
        kClears);
    if (!cleared.ok()) explain("after the fault");
    clears_after_ = cleared.ok() ? to_seconds(cluster_.simulation().now() - ended) : -1;
    describe(fault, load);
    return {};
  }

  const std::string& json() const { return json_; }

 private:
  /// All that were raised.
  std::vector<Verdict> alarms() {
    std::vector<Verdict> all = cluster_.verdicts();
    const auto& history = cluster_.monitor().alarms().history();
    all.insert(all.end(), history.begin(), history.end());
    return all;
  }

  void watch(DrawnFault& fault) {
    if (!fault.begin()) return;
    const TimePoint began = cluster_.simulation().now();
    std::optional<Duration> first;
    while (true) {
      const Duration now = cluster_.simulation().now() - began;
      if (!reached_ && fault.happened()) {
        reached_ = now;
        met_ = fault.met();
      }
      if (!reached_ && now >= kReach) return;
      for (const Verdict& verdict : cluster_.verdicts()) {
        const bool is_old =
            std::ranges::any_of(before_, [&](const Verdict& b) { return b.id() == verdict.id(); });
        if (is_old) continue;
        const auto [at, is_new] = said_.try_emplace(verdict.id(), Said{verdict, now});
        at->second.verdict = verdict;
        if (is_new && !first) first = now;
      }
      if (reached_ && now - *reached_ > fault.watch()) return;
      // What is slow is looked for in windows, and more than one verdict is no surprise.
      if (reached_ && first && now > std::max(*first, *reached_) + kAfterFirst) return;
      cluster_.run_for(kLook);
      if (now % 1s < kLook) explain(fmt::format("{:.0f} s", to_seconds(now)));
    }
  }

  static std::string json_of(const Said& said) {
    const Verdict& v = said.verdict;
    return fmt::format(
        R"({{"kind": {}, "server": {}, "process_kind": {}, "peer": {}, "device": {}, "region": {}, "file": {}, )"
        R"("line": {}, "confidence": {}, "masked": {}, "waiters": {}, "after": {:.2f}, "line_of_text": {}, "why": {}}})",
        quoted(std::string(proto::kind_name(v.kind()))), quoted(v.server()), quoted(v.process_kind()),
        quoted(v.peer()), quoted(v.device()), quoted(v.region()), quoted(v.file()), v.line(),
        quoted(std::string(proto::confidence_name(v.confidence()))), v.masked(), v.waiters(),
        to_seconds(said.after), quoted(proto::describe(v)), list_of(v.why()));
  }

  /// Where in the code the fault happened, as JSON.
  std::string place() const {
    if (!met_) return "null";
    return fmt::format(R"({{"file": {}, "line": {}, "function": {}, "region": {}}})",
                       quoted(met_->where.file_name()), met_->where.line(),
                       quoted(met_->where.function_name()), quoted(std::string(met_->region)));
  }

  void describe(const DrawnFault& fault, const Load& load) {
    std::string verdicts, before;
    for (const auto& [id, said] : said_)
      verdicts += (verdicts.empty() ? "" : ", ") + json_of(said);
    for (const Verdict& verdict : before_)
      before += (before.empty() ? "" : ", ") + quoted(proto::describe(verdict));
    json_ = fmt::format(
        R"({{"seed": {}, "class": "{}", "kind": "{}", "point": "{}", "detail": "{}", "skip": {}, "server": "{}", )"
        R"("peer": "{}", "place": {}, "before": [{}], "reached": {}, "verdicts": [{}], "held_up": {:.2f}, "clears_after": {:.1f}, )"
        R"("load": [{}, {}, {}], "event_hash": {}}})",
        cluster_.options().seed, name_of(fault.of_class()), fault.kind(), fault.point(), fault.detail(),
        fault.skip(), fault.server(), fault.peer(), place(), before,
        reached_ ? fmt::format("{:.2f}", to_seconds(*reached_)) : "null", verdicts, to_seconds(held_up_),
        clears_after_, load.done(), load.failed(), load.wrong().size(), cluster_.event_hash());
  }

  /// For people who look into one run.
  void explain(const std::string& when) {
    if (!explain_) return;
    std::string text = "---- " + when + "\n";
    for (const Verdict& verdict : cluster_.verdicts()) {
      text += proto::describe(verdict) + "\n";
      for (const auto& link : verdict.chain())
        text += "  " + proto::describe(link) + "\n";
      for (const std::string& why : verdict.why())
        text += "  because " + why + "\n";
    }
    const model::Snapshot snapshot = cluster_.monitor().snapshot();
    for (const auto& view : snapshot.processes) {
      if (snapshot.silent(*view) > 2s || view->last().all_live())
        text +=
            fmt::format("{}, heard of {:.1f} s ago{}\n", view->display(), to_seconds(snapshot.silent(*view)),
                        view->last().all_live() ? ", said everything" : "");
      for (const proto::SightLive& live : view->last().live()) {
        if (live.still_ns() < 500'000'000 && live.ended_ago_ns() == 0) continue;
        const proto::SightPath* path = view->path(live.path());
        text += fmt::format(
            "  {}: {}{} {:x} below {:x}: {}, {} {} {:x}, still {:.2f} s, age {:.2f} s [{}:{}]{}\n",
            view->display(), live.task_root() ? "" : "  ", live.task(), live.span(), live.parent(),
            path == nullptr ? "?" : path->site(), proto::wait_name(live.wait()), live.target(),
            live.target_span(), 1e-9 * static_cast<double>(live.still_ns()),
            1e-9 * static_cast<double>(live.age_ns()), live.file(), live.line(),
            live.ended_ago_ns() != 0 ? " ended" : "");
      }
    }
    fmt::print("{}", text);
  }

  SimulatedCluster cluster_;
  SimRandom random_;
  std::vector<Verdict> before_;
  std::map<uint64_t, Said> said_;  ///< by the number of the alarm
  std::optional<Duration> reached_;
  std::optional<runtime::FaultPoints::Met> met_;
  Duration held_up_{};  ///< the longest round of a client
  double clears_after_ = -1;
  const bool explain_;
  std::string json_;
};

}  // namespace

std::string run_injection(uint64_t seed, bool explain) {
  Injection injection(seed, explain);
  const Status status = injection.run();
  if (!status.ok()) return fmt::format(R"({{"seed": {}, "problem": {}}})", seed, quoted(status.to_string()));
  return injection.json();
}

}  // namespace kintsugi::simulation
