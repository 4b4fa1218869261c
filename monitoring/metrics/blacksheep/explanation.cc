#include "monitoring/metrics/blacksheep/explanation.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

namespace kintsugi::blacksheep {

namespace {

/// A metric that is explained, and the least deviation that it is taken to have: four times as much is no work worth a word.
struct Explained {
  std::string_view name;
  double least;
};
/// Bytes of the network are not among them: processes may share its counters with others.
constexpr std::array<Explained, 7> kExplained{{{"cpu_ns", 5e5},
                                               {"minflt", 10},
                                               {"run_delay_ns", 1e7},
                                               {"voluntary_ctxt_switches", 1},
                                               {"nonvoluntary_ctxt_switches", 1},
                                               {"read_bytes", 25e3},
                                               {"write_bytes", 25e3}}};
/// What an execution does while it is open. Waiting for a processor is no work, and pages come by themselves.
constexpr std::array<std::string_view, 4> kWork{"cpu_ns", "voluntary_ctxt_switches", "read_bytes",
                                                "write_bytes"};

constexpr double kWindowSeconds = std::chrono::duration<double>(kWindow).count();

/// The known windows of all processes, one after the other, without those from `except_from` to before `except_to`.
struct Known {
  Eigen::MatrixXd ended, open, done;
};

Known known_of(std::span<const Work> all, size_t except_from, size_t except_to) {
  std::vector<std::pair<const Work*, Eigen::Index>> rows;
  for (const Work& work : all)
    for (size_t window = 0; window < work.windows(); ++window)
      if (const auto row = static_cast<Eigen::Index>(window);
          (window < except_from || window >= except_to) && work.done.row(row).allFinite())
        rows.emplace_back(&work, row);
  Known out;
  const auto gather = [&](Eigen::MatrixXd Work::* from) {
    Eigen::MatrixXd matrix(static_cast<Eigen::Index>(rows.size()),
                           all.empty() ? 0 : (all.front().*from).cols());
    for (size_t i = 0; i < rows.size(); ++i)
      matrix.row(static_cast<Eigen::Index>(i)) = (rows[i].first->*from).row(rows[i].second);
    return matrix;
  };
  out.ended = gather(&Work::ended);
  out.open = gather(&Work::open);
  out.done = gather(&Work::done);
  return out;
}

}  // namespace

std::vector<std::string> explained_metrics(const std::vector<std::string>& names) {
  std::vector<std::string> out;
  for (const Explained& metric : kExplained)
    if (std::ranges::find(names, metric.name) != names.end()) out.emplace_back(metric.name);
  return out;
}

Answer<Explanation> Explanation::learn(std::span<const Work> healthy, const std::vector<std::string>& states,
                                       const std::vector<std::string>& metrics, size_t except_from,
                                       size_t except_to) {
  if (metrics.empty()) return NotEnough{Lack::kMetrics};
  const Known known = known_of(healthy, except_from, except_to);
  if (const auto have = static_cast<size_t>(known.done.rows()); have < kFewestWindows)
    return NotEnough{Lack::kHealthyPast, have, kFewestWindows};
  Explanation out;
  out.states_ = states;
  out.metrics_ = metrics;
  for (size_t i = 0; i < metrics.size(); ++i)
    if (std::ranges::find(kWork, metrics[i]) != kWork.end())
      out.work_.push_back(static_cast<Eigen::Index>(i));
  for (size_t i = 0; i < metrics.size(); ++i)
    out.learn_metric(i, known.ended, known.done);
  for (size_t i = 0; i < states.size(); ++i)
    out.learn_state(i, known.ended, known.open, known.done);
  return out;
}

void Explanation::learn_metric(size_t metric, const Eigen::MatrixXd& ended, const Eigen::MatrixXd& done) {
  const auto column = static_cast<Eigen::Index>(metric);
  costs_.push_back(Costs::learn(ended, done.col(column)));
  aspects_.push_back({Aspect::Of::kMachine, metrics_[metric]});
  columns_.push_back(column);
  least_.push_back(std::ranges::find(kExplained, metrics_[metric], &Explained::name)->least);
}

void Explanation::learn_state(size_t state, const Eigen::MatrixXd& ended, const Eigen::MatrixXd& open,
                              const Eigen::MatrixXd& done) {
  const auto column = static_cast<Eigen::Index>(state);
  if ((ended.col(column).array() > 0).count() < static_cast<Eigen::Index>(kFewestWindowsOfState)) {
    strange_.push_back(column);
    return;
  }
  costs_.push_back(Costs::learn(done(Eigen::all, work_), open.col(column)));
  aspects_.push_back({Aspect::Of::kLog, states_[state]});
  columns_.push_back(column);
  least_.push_back(kLeastOpen);
}

Eigen::RowVectorXd Explanation::causes(const Work& work, size_t window, const Aspect& aspect) const {
  const auto row = static_cast<Eigen::Index>(window);
  if (aspect.of == Aspect::Of::kMachine) return work.ended.row(row);
  return work.done(row, work_);
}

bool Explanation::has_strange_states(const Work& work, size_t window) const {
  const auto row = static_cast<Eigen::Index>(window);
  return work.others[window] || (work.ended(row, strange_).array() > 0).any() ||
         (work.open(row, strange_).array() > 0).any();
}

double Explanation::off(const Work& work, size_t window, size_t aspect) const {
  const Eigen::RowVectorXd causes = this->causes(work, window, aspects_[aspect]);
  const double is = actual(work, window, aspect), ground = costs_[aspect].ground();
  // Executions that fail end without having worked, so less than they cost is not odd, but less than none of them is.
  if (is < costs_[aspect].explained(causes)) return std::min(0.0, 1 - ground / std::max(is, least_[aspect]));
  if (aspects_[aspect].of == Aspect::Of::kLog) return costs_[aspect].deviations(causes, is, least_[aspect]);
  if (has_strange_states(work, window)) return 0;
  // An execution that ends just after a window did its work within it.
  const double of_one = costs_[aspect].highest() / kWindowSeconds;
  return costs_[aspect].deviations(causes, is, std::max(least_[aspect], of_one));
}

double Explanation::actual(const Work& work, size_t window, size_t aspect) const {
  const auto row = static_cast<Eigen::Index>(window);
  return aspects_[aspect].of == Aspect::Of::kMachine ? work.done(row, columns_[aspect])
                                                     : work.open(row, columns_[aspect]);
}

double Explanation::explained(const Work& work, size_t window, size_t aspect) const {
  return costs_[aspect].explained(causes(work, window, aspects_[aspect]));
}

Eigen::MatrixXd Explanation::off(const Work& work) const {
  Eigen::MatrixXd out(static_cast<Eigen::Index>(work.windows()), static_cast<Eigen::Index>(aspects_.size()));
  out.setConstant(std::numeric_limits<double>::quiet_NaN());
  for (size_t window = 0; window < work.windows(); ++window) {
    const auto row = static_cast<Eigen::Index>(window);
    if (!work.done.row(row).allFinite()) continue;
    for (size_t i = 0; i < aspects_.size(); ++i)
      out(row, static_cast<Eigen::Index>(i)) = off(work, window, i);
  }
  return out;
}

}  // namespace kintsugi::blacksheep
