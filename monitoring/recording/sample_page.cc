#include "monitoring/recording/sample_page.h"

#include <charconv>

#include <fmt/format.h>

namespace kintsugi::recording {
namespace {

constexpr std::string_view kPid = "# pid ";

/// Takes what stands before `end`, or all, away from the front of a text.
std::string_view next(std::string_view& text, char end) {
  const size_t length = text.find(end);
  const std::string_view part = text.substr(0, length);
  text.remove_prefix(length == std::string_view::npos ? text.size() : length + 1);
  return part;
}

template <class T>
bool parse_number(std::string_view text, T& value) {
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
}

Status corrupt(std::string_view line) {
  return Status(Code::kCorrupt, fmt::format("a page of samples has the line \"{}\"", line.substr(0, 80)));
}

Status parse_counts(std::string_view line, PageValues::Counts& counts) {
  while (!line.empty() && counts.size() < SamplePage::kMostRegions) {
    const std::string_view word = next(line, ' ');
    const size_t sign = word.rfind('=');
    double count = 0;
    if (sign == std::string_view::npos || sign == 0 || sign > metric_trace::kLongestName ||
        !parse_number(word.substr(sign + 1), count))
      return corrupt(word);
    counts.emplace_back(word.substr(0, sign), count);
  }
  return {};
}

}  // namespace

Result<PageNames> parse_names(std::string_view text) {
  PageNames names;
  while (!text.empty()) {
    const std::string_view line = next(text, '\n');
    if (line.starts_with(kPid)) {
      if (!parse_number(line.substr(kPid.size()), names.pid)) return corrupt(line);
      continue;
    }
    const bool counter = line.starts_with("c ");
    const std::string_view name = line.substr(std::min<size_t>(line.size(), 2));
    if ((!counter && !line.starts_with("g ")) || name.empty() || name.size() > metric_trace::kLongestName)
      return corrupt(line);
    names.metrics.push_back({.name = std::string(name),
                             .kind = counter ? metric_trace::Kind::kCounter : metric_trace::Kind::kGauge});
    if (names.metrics.size() > SamplePage::kMostMetrics)
      return Status(Code::kLimitExceeded, "a page of samples has too many metrics");
  }
  return names;
}

Result<PageValues> parse_values(std::string_view text) {
  PageValues page;
  std::string_view line = next(text, '\n');
  while (!line.empty()) {
    const std::string_view word = next(line, ' ');
    double value = 0;
    if (!parse_number(word, value)) return corrupt(word);
    page.values.push_back(value);
  }
  KINTSUGI_TRY(parse_counts(next(text, '\n'), page.open));
  KINTSUGI_TRY(parse_counts(next(text, '\n'), page.ended));
  return page;
}

asio::awaitable<Status> SamplePage::read(TimePoint deadline) {
  const bool kept = connection_.is_open();
  Status status = co_await ask(deadline);
  // A server closes what was not used for long.
  if (!status.ok() && kept && !connection_.is_open() && runtime_.clock.now() < deadline)
    status = co_await ask(deadline);
  co_return status;
}

asio::awaitable<Status> SamplePage::ask(TimePoint deadline) {
  // Behind another connection may be another process.
  if (!connection_.is_open() || names_.metrics.empty()) {
    KINTSUGI_CO_ASSIGN(const std::string text, co_await connection_.get("/debug/sample/names", deadline));
    KINTSUGI_CO_ASSIGN(PageNames names, parse_names(text));
    if (names.pid != 0 && names.pid != pid_) {
      connection_.close();
      co_return Status{Code::kConflict,
                       fmt::format("this is the page of process {}, not of {}", names.pid, pid_)};
    }
    names_ = std::move(names);
  }
  KINTSUGI_CO_ASSIGN(const std::string text, co_await connection_.get("/debug/sample", deadline));
  KINTSUGI_CO_ASSIGN(PageValues values, parse_values(text));
  if (values.values.size() != names_.metrics.size()) {
    names_.metrics.clear();
    co_return Status{Code::kConflict, "the page of samples has changed"};
  }
  values_ = std::move(values);
  co_return Status{};
}

}  // namespace kintsugi::recording
