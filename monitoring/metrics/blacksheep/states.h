/// How many executions of each state were open in each interval, from the text of a log. A single pass; an execution counts
/// when it ends, so that a start whose state its stop will tell counts where it began.
#pragma once

#include <chrono>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include <Eigen/Core>
#include <boost/unordered/unordered_flat_map.hpp>

#include "common/base/status.h"
#include "monitoring/metrics/blacksheep/event.h"

namespace kintsugi::blacksheep {

/// Matrices are intervals by states.
struct States {
  std::vector<std::string> names;
  int64_t begin_ns = 0;  ///< begin of the first interval: a multiple of the period
  std::chrono::nanoseconds period{std::chrono::seconds(1)};
  Eigen::MatrixXd open_at_end;  ///< the text's count, without instants: short executions vanish in it
  Eigen::MatrixXd overlapping;  ///< executions that were open at any time
  Eigen::MatrixXd concurrency;  ///< mean number of open executions
  Eigen::MatrixXd ended;        ///< executions that ended, however they did
  Eigen::MatrixXd instants;

  uint64_t lines = 0;
  uint64_t foreign_lines = 0;  ///< lines that say nothing of states
  uint64_t cut_lines = 0;      ///< last lines of files, without an end
  uint64_t unknown_stops = 0;  ///< ends of executions whose start is not in the log
  uint64_t dropped = 0;        ///< executions that the writer did not log
  uint64_t out_of_range = 0;   ///< events too long after the first one
  std::vector<size_t> begins;  ///< intervals in which the process began anew

  size_t intervals() const { return static_cast<size_t>(concurrency.rows()); }
  /// What changes are looked for in: mean concurrency, and instants a second.
  Eigen::VectorXd activity(size_t state) const;
  /// Comma-separated: time, and the four series of each state (RFC 4180).
  std::string to_csv() const;
};

/// Later intervals than this after the first event are not counted: 12 days at one second.
inline constexpr size_t kMostIntervals = size_t{1} << 20;
/// Further states are foreign lines.
inline constexpr size_t kMostStates = 256;

class StateReader {
 public:
  explicit StateReader(std::chrono::nanoseconds period = std::chrono::seconds(1),
                       Grammar grammar = activity_event)
      : grammar_(grammar) {
    totals_.period = period;
  }

  /// Any part of the text, in order; a line may be cut in two.
  void feed(std::string_view text);
  /// A file ends: what follows is the next one of a rotation. A cut line counts and is left out.
  void end_file();
  /// Everything up to the last event; executions without a stop are open there. Deferred starts whose stop did not come
  /// yet are in no state, and the intervals from the oldest of them on are not there.
  States states() const;

 private:
  struct Execution {
    uint32_t state;
    int64_t begin_ns;
  };
  struct Cell {
    float open_at_end = 0, overlapping = 0, ended = 0, instants = 0;
    double open_ns = 0;
  };
  using Column = std::vector<Cell>;  ///< index: interval

  void line(std::string_view text);
  void apply(const Event& event);
  void start(const Event& event);
  void stop(const Event& event);
  void stop_deferred(const Event& event);
  void begin();
  /// kMostStates: there are too many.
  uint32_t state_of(std::string_view name);
  size_t interval_of(int64_t t_ns) const {
    return static_cast<size_t>((t_ns - totals_.begin_ns) / totals_.period.count());
  }
  /// An execution ended: what was open when its process died did not.
  void end(uint32_t state, int64_t from_ns, int64_t to_ns);
  void add(std::vector<Column>& columns, uint32_t state, int64_t from_ns, int64_t to_ns) const;
  static Cell& cell(Column& column, size_t interval);

  const Grammar grammar_;
  std::string cut_;  ///< the beginning of a line whose end did not come yet
  States totals_;    ///< names and counts
  bool any_event_ = false;
  int64_t last_ns_ = 0;
  std::vector<Column> columns_;  ///< index: state; executions that have ended
  boost::unordered_flat_map<std::string, uint32_t> numbers_;
  boost::unordered_flat_map<uint64_t, Execution> open_;  ///< key: hash of state and execution
  std::vector<std::deque<int64_t>> open_in_order_;  ///< index: state; begins of executions without a name
  std::deque<int64_t> deferred_;                    ///< begins, oldest first
};

/// The log at `path` with the older files of its rotation (PATH.1 is the newest of them, as "name.1.log" of a path
/// "name.log"). kNotFound, kIoError.
Result<States> read_states(const std::string& path,
                           std::chrono::nanoseconds period = std::chrono::seconds(1));

}  // namespace kintsugi::blacksheep
