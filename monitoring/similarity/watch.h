/// Which server works unlike the others of its role, and unlike itself before: AutomaDeD of a live cluster, window by
/// window. Not thread-safe.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/proto/sight.pb.h"
#include "common/runtime/clock.h"
#include "monitoring/similarity/difference.h"

namespace kintsugi::similarity {

struct WatchSettings {
  Form form = Form::kOurs;
  double least_transitions = 100;  ///< transitions of a worker in a window; with fewer it is not judged
  size_t references = 60;          ///< windows of a worker without an alarm that are remembered
  size_t like_load = 8;            ///< number of peers, with the most similar load, that it is compared with
  size_t least_references = 4;
  size_t least_peers = 2;  ///< other workers of the role; with fewer only its own past counts
  /// A difference is odd when it exceeds its usual value by so many robust deviations.
  double deviations = 6;
  double least_difference = 0.5;  ///< a smaller difference is never odd
  /// A transition that takes less than this factor more time is no reason for a verdict.
  double least_factor = 1.6;
  double least_executions = 20;  ///< executions that a transition needs to be named
  /// If everything that a server computes is slower by this factor, its processor or memory is taken by others.
  double resource_factor = 1.4;
  size_t resource_edges = 3;  ///< computing transitions that are needed for that
  /// Successive odd windows that raise, and normal ones that clear.
  size_t raise_windows = 2, clear_windows = 2;
  size_t most_workers = 16'384;
};

/// A window of one worker.
struct Worker {
  std::string server;  ///< name for people
  uint64_t server_id = 0, process = 0;
  std::string process_kind, role;
  Model model;  ///< model of the log2 of times
  /// Rates in this window: operations and bytes a second of each kind. Every window has the same number of them.
  std::vector<double> load;
  /// It, or most of its machine, could have run, and had no processor, for a part of the window: then its times say
  /// nothing of it.
  bool lacked_processor = false;
};

struct StateInfo {
  std::string name;    ///< name for people: the region, and what is waited for
  std::string region;  ///< full calling context
  std::string file, function;
  uint32_t line = 0;
  proto::WaitKind wait = proto::WAIT_NONE;
  bool computes = false;  ///< true: it waits for nothing
};

class Watch {
 public:
  using Describe = std::function<StateInfo(uint64_t state)>;
  explicit Watch(Describe describe, WatchSettings settings = {})
      : describe_(std::move(describe)), settings_(settings) {}

  /// All workers' windows of one length that ended at `now`. A process that is not among them is forgotten after a
  /// while.
  void add_window(const std::vector<Worker>& workers, TimePoint now);
  /// The alarms that stand: SLOW with server, role and transition, or RESOURCE with the server.
  std::vector<proto::Verdict> alarms(TimePoint now) const;
  /// What the latest windows would have been called, if it were not for a lack of processor.
  const std::vector<proto::Verdict>& excused() const { return excused_; }

 private:
  struct Reference {
    Model model;
    std::vector<double> load;
  };
  struct Alarm {
    size_t odd = 0, well = 0;  ///< successive odd windows, and successive normal ones
    std::optional<TimePoint> since;
    TimePoint first_odd{};
    proto::Verdict verdict;
    void update(bool is_odd, TimePoint now, const WatchSettings& settings);
  };
  struct Known {
    std::deque<Reference> references;
    std::deque<double> to_past, to_peers;  ///< differences in windows without an alarm
    Alarm alarm;
    TimePoint seen{};
  };
  struct Judged {
    const Worker* worker;
    Known* known;
    Model past, peers;
    double to_past = 0, to_peers = 0;
    bool odd = false;
    std::vector<Term> top;
    double factor = 1;
  };
  using Key = std::pair<uint64_t, std::string>;  // (process, role)
  // Key: kind of process and role.
  using Roles = std::map<std::pair<std::string, std::string>, std::vector<Judged>>;

  Model past_of(const Known& known, const std::vector<double>& load) const;
  Roles by_role(const std::vector<Worker>& workers, TimePoint now);
  void judge_role(std::vector<Judged>& role);
  void judge_computing(const Roles& roles, TimePoint now);
  void learn(const Judged& judged, bool has_peers);
  bool stands_out(double value, const std::deque<double>& usual) const;
  std::vector<double> computing_ratios(const Judged& judged) const;
  proto::Verdict slow(const Judged& judged, size_t peers) const;
  static proto::Verdict short_of_resource(const Worker& worker, size_t transitions, double octaves,
                                          bool has_peers);
  double factor_of(const Model& model, const Model& other, const Term& term) const;

  Describe describe_;
  WatchSettings settings_;
  std::map<Key, Known> known_;
  std::map<uint64_t, Alarm> resource_;  ///< key: process id
  std::map<uint64_t, TimePoint> seen_;
  std::vector<proto::Verdict> excused_;
};

}  // namespace kintsugi::similarity
