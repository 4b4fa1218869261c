#include "monitoring/metrics/blacksheep/states.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "common/base/hash.h"

namespace kintsugi::blacksheep {

namespace {

constexpr std::string_view kErrorState = "Error";
constexpr size_t kLongestLine = 64 << 10;  ///< the rest of a longer line is left out
constexpr size_t kReadBytes = 1 << 20;

}  // namespace

Eigen::VectorXd States::activity(size_t state) const {
  const auto column = static_cast<Eigen::Index>(state);
  return concurrency.col(column) + instants.col(column) / std::chrono::duration<double>(period).count();
}

std::string States::to_csv() const {
  std::string out = "t_ns";
  for (const std::string& name : names)
    out += fmt::format(",{0}:open_at_end,{0}:overlapping,{0}:concurrency,{0}:instants", name);
  out += '\n';
  for (Eigen::Index row = 0; row < concurrency.rows(); ++row) {
    out += std::to_string(begin_ns + row * period.count());
    for (Eigen::Index state = 0; state < concurrency.cols(); ++state)
      out += fmt::format(",{},{},{},{}", open_at_end(row, state), overlapping(row, state),
                         concurrency(row, state), instants(row, state));
    out += '\n';
  }
  return out;
}

void StateReader::feed(std::string_view text) {
  while (!text.empty()) {
    const void* const end = std::memchr(text.data(), '\n', text.size());
    if (end == nullptr) {
      cut_ += text.substr(0, std::min(text.size(), kLongestLine - std::min(kLongestLine, cut_.size())));
      return;
    }
    const auto length = static_cast<size_t>(static_cast<const char*>(end) - text.data());
    if (cut_.empty()) {
      line(text.substr(0, length));
    } else {
      cut_ += text.substr(0, length);
      line(cut_);
      cut_.clear();
    }
    text.remove_prefix(length + 1);
  }
}

void StateReader::end_file() {
  if (cut_.empty()) return;
  ++totals_.cut_lines;
  cut_.clear();
}

void StateReader::line(std::string_view text) {
  ++totals_.lines;
  if (!text.empty() && text.back() == '\r') text.remove_suffix(1);
  Event event = grammar_(text, last_ns_);
  if (event.kind == EventKind::kNoOp) {
    ++totals_.foreign_lines;
    return;
  }
  if (!any_event_) {
    const int64_t period = totals_.period.count();
    totals_.begin_ns = event.t_ns - ((event.t_ns % period) + period) % period;
    last_ns_ = event.t_ns;
    any_event_ = true;
  }
  // A clock that was set back: nothing happens before what happened already.
  event.t_ns = std::max(event.t_ns, last_ns_);
  if (event.t_ns - totals_.begin_ns >= static_cast<int64_t>(kMostIntervals) * totals_.period.count()) {
    ++totals_.out_of_range;
    return;
  }
  apply(event);
  last_ns_ = event.t_ns;
}

void StateReader::apply(const Event& event) {
  switch (event.kind) {
    case EventKind::kNoOp: break;
    case EventKind::kStart: return start(event);
    case EventKind::kDeferredStart: deferred_.push_back(event.t_ns); break;
    case EventKind::kStop: return stop(event);
    case EventKind::kDeferredStop: return stop_deferred(event);
    case EventKind::kInstant:
    case EventKind::kError: {
      const uint32_t state = state_of(event.kind == EventKind::kError ? kErrorState : event.state);
      if (state < kMostStates) cell(columns_[state], interval_of(event.t_ns)).instants += 1;
      break;
    }
    case EventKind::kBegin:
      begin();
      totals_.begins.push_back(interval_of(event.t_ns));
      break;
    case EventKind::kDropped: totals_.dropped += event.count; break;
  }
}

void StateReader::start(const Event& event) {
  const uint32_t state = state_of(event.state);
  if (state == kMostStates) return;
  if (event.execution.empty()) {
    open_in_order_[state].push_back(event.t_ns);
    return;
  }
  const auto [place, fresh] =
      open_.try_emplace(mix_bits(hash_name(event.execution) ^ state), Execution{state, event.t_ns});
  if (fresh) return;
  // The same one again: its stop was lost.
  end(state, place->second.begin_ns, event.t_ns);
  place->second.begin_ns = event.t_ns;
}

void StateReader::stop(const Event& event) {
  const uint32_t state = state_of(event.state);
  if (state == kMostStates) return;
  if (event.execution.empty()) {
    auto& begins = open_in_order_[state];
    if (begins.empty()) {
      ++totals_.unknown_stops;
      return;
    }
    end(state, begins.front(), event.t_ns);
    begins.pop_front();
    return;
  }
  const auto found = open_.find(mix_bits(hash_name(event.execution) ^ state));
  if (found == open_.end()) {
    ++totals_.unknown_stops;
    return;
  }
  end(state, found->second.begin_ns, event.t_ns);
  open_.erase(found);
}

void StateReader::stop_deferred(const Event& event) {
  const uint32_t state = state_of(event.state);
  if (state == kMostStates) return;
  if (deferred_.empty()) {
    ++totals_.unknown_stops;
    return;
  }
  end(state, deferred_.front(), event.t_ns);
  deferred_.pop_front();
}

/// What was open ended with the process, at the latest when it was last heard of.
void StateReader::begin() {
  for (const auto& [key, execution] : open_)
    add(columns_, execution.state, execution.begin_ns, last_ns_);
  open_.clear();
  for (uint32_t state = 0; state < open_in_order_.size(); ++state) {
    for (const int64_t begin_ns : open_in_order_[state])
      add(columns_, state, begin_ns, last_ns_);
    open_in_order_[state].clear();
  }
  deferred_.clear();
}

uint32_t StateReader::state_of(std::string_view name) {
  // As many lines in a row are of few states, comparing beats hashing.
  for (uint32_t state = 0; state < std::min<size_t>(totals_.names.size(), 8); ++state) {
    if (totals_.names[state] == name) return state;
  }
  const std::string key(name);
  if (const auto found = numbers_.find(key); found != numbers_.end()) return found->second;
  if (totals_.names.size() == kMostStates) {
    ++totals_.foreign_lines;
    return kMostStates;
  }
  const auto state = static_cast<uint32_t>(totals_.names.size());
  totals_.names.push_back(key);
  columns_.emplace_back();
  open_in_order_.emplace_back();
  numbers_.emplace(key, state);
  return state;
}

StateReader::Cell& StateReader::cell(Column& column, size_t interval) {
  if (column.size() <= interval) column.resize(std::max(interval + 1, column.size() + column.size() / 2));
  return column[interval];
}

void StateReader::end(uint32_t state, int64_t from_ns, int64_t to_ns) {
  add(columns_, state, from_ns, to_ns);
  cell(columns_[state], interval_of(to_ns)).ended += 1;
}

void StateReader::add(std::vector<Column>& columns, uint32_t state, int64_t from_ns, int64_t to_ns) const {
  const int64_t period = totals_.period.count();
  const size_t last = interval_of(to_ns);
  for (size_t interval = interval_of(from_ns); interval <= last; ++interval) {
    const int64_t begin = totals_.begin_ns + static_cast<int64_t>(interval) * period;
    Cell& cell = StateReader::cell(columns[state], interval);
    cell.overlapping += 1;
    cell.open_at_end += interval < last ? 1 : 0;
    cell.open_ns += static_cast<double>(std::min(to_ns, begin + period) - std::max(from_ns, begin));
  }
}

States StateReader::states() const {
  States out = totals_;
  if (!any_event_) return out;
  std::vector<Column> columns = columns_;
  // Executions that did not end: they are open at the end of the last interval, too.
  const auto add_open = [&](uint32_t state, int64_t begin_ns) {
    add(columns, state, begin_ns, last_ns_);
    cell(columns[state], interval_of(last_ns_)).open_at_end += 1;
  };
  for (const auto& [key, execution] : open_)
    add_open(execution.state, execution.begin_ns);
  for (uint32_t state = 0; state < open_in_order_.size(); ++state) {
    for (const int64_t begin_ns : open_in_order_[state])
      add_open(state, begin_ns);
  }
  const size_t intervals = deferred_.empty() ? interval_of(last_ns_) + 1 : interval_of(deferred_.front());
  const auto rows = static_cast<Eigen::Index>(intervals), width = static_cast<Eigen::Index>(columns.size());
  for (Eigen::MatrixXd* matrix :
       {&out.open_at_end, &out.overlapping, &out.concurrency, &out.ended, &out.instants})
    *matrix = Eigen::MatrixXd::Zero(rows, width);
  const auto period = static_cast<double>(totals_.period.count());
  for (Eigen::Index state = 0; state < width; ++state) {
    const Column& column = columns[static_cast<size_t>(state)];
    for (Eigen::Index row = 0; row < std::min(rows, static_cast<Eigen::Index>(column.size())); ++row) {
      const Cell& cell = column[static_cast<size_t>(row)];
      out.open_at_end(row, state) = cell.open_at_end;
      out.overlapping(row, state) = cell.overlapping;
      out.concurrency(row, state) = cell.open_ns / period;
      out.ended(row, state) = cell.ended;
      out.instants(row, state) = cell.instants;
    }
  }
  return out;
}

Result<States> read_states(const std::string& path, std::chrono::nanoseconds period) {
  namespace fs = std::filesystem;
  std::vector<std::string> files{path};
  const fs::path base(path);
  for (size_t i = 1;; ++i) {
    const fs::path older =
        base.parent_path() / fmt::format("{}.{}{}", base.stem().string(), i, base.extension().string());
    std::error_code error;
    if (!fs::exists(older, error)) break;
    files.push_back(older.string());
  }
  StateReader reader(period);
  std::string buffer(kReadBytes, '\0');
  for (auto file = files.rbegin(); file != files.rend(); ++file) {
    std::ifstream in(*file, std::ios::binary);
    if (!in) return Status(Code::kNotFound, *file + ": no such log, or it may not be read");
    while (in.read(buffer.data(), static_cast<std::streamsize>(buffer.size())), in.gcount() > 0)
      reader.feed(std::string_view(buffer).substr(0, static_cast<size_t>(in.gcount())));
    if (in.bad()) return Status(Code::kIoError, *file + ": the log cannot be read to its end");
    reader.end_file();
  }
  return reader.states();
}

}  // namespace kintsugi::blacksheep
