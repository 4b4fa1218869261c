#include "client/cli/trace_times.h"

#include <algorithm>
#include <chrono>
#include <ctime>

#include <fmt/format.h>

#include "client/cli/format.h"
#include "client/cli/printable.h"
#include "client/cli/trace_directives.h"
#include "common/config/units.h"

namespace kintsugi::cli {
namespace {

using std::chrono::milliseconds;

constexpr std::string_view kAt = "at:";
constexpr uint64_t kMostMs = 86'400'000;

Result<uint64_t> milliseconds_of(const std::string& text, const char* option) {
  const auto time = config::parse_duration(text);
  if (!time) return time.error().with_context(option);
  return static_cast<uint64_t>(std::max<int64_t>(*time / milliseconds(1), 1));
}

/// Two digits that are less than `limit`; they are taken off `text`.
bool take_number(std::string_view& text, int limit, int& number) {
  constexpr auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (text.size() < 2 || !is_digit(text[0]) || !is_digit(text[1])) return false;
  number = (text[0] - '0') * 10 + (text[1] - '0');
  text.remove_prefix(2);
  return number < limit;
}

bool take_colon(std::string_view& text) {
  if (!text.starts_with(':')) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

Result<std::string> after_time(const std::string& at, int64_t now_unix_s) {
  std::string_view text = std::string_view(at).substr(kAt.size());
  const std::time_t now = now_unix_s;
  std::tm wanted{};
  ::localtime_r(&now, &wanted);
  wanted.tm_sec = 0;
  bool is_time =
      take_number(text, 24, wanted.tm_hour) && take_colon(text) && take_number(text, 60, wanted.tm_min);
  if (is_time && !text.empty())
    is_time = take_colon(text) && take_number(text, 60, wanted.tm_sec) && text.empty();
  if (!is_time)
    return Status{Code::kInvalidArgument,
                  fmt::format("{} is no time: at:HH:MM or at:HH:MM:SS", shown_message(at))};
  // A day with another number of hours is left to mktime.
  wanted.tm_isdst = -1;
  std::tm tomorrow = wanted;
  ++tomorrow.tm_mday;
  std::time_t begins = std::mktime(&wanted);
  if (begins <= now) begins = std::mktime(&tomorrow);
  return fmt::format("after:{}s", begins - now);
}

Result<proto::TraceRequest> attach_request(const AttachArguments& arguments) {
  proto::TraceRequest request;
  request.set_action(proto::TraceRequest::ATTACH);
  request.set_start(arguments.start);
  if (arguments.start.starts_with(kAt)) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    KINTSUGI_ASSIGN(*request.mutable_start(),
                    after_time(arguments.start, std::chrono::floor<std::chrono::seconds>(now).count()));
  }
  KINTSUGI_ASSIGN(const uint64_t limit_ms, milliseconds_of(arguments.lasts, "--for"));
  // Daemons refuse it, too; they may be asked only when a verdict has come.
  if (limit_ms > kMostMs)
    return Status{Code::kInvalidArgument, "a recording lasts at most a day, with the wait for it"};
  request.set_limit_ms(limit_ms);
  if (!arguments.recorded_for.empty()) {
    KINTSUGI_ASSIGN(const uint64_t recorded_ms, milliseconds_of(arguments.recorded_for, "--record-for"));
    request.set_recorded_for_ms(recorded_ms);
  }
  request.set_circular(arguments.circular);
  request.set_bytes(arguments.bytes);
  request.set_follow(arguments.follow);
  request.set_hops(kMostHops);
  if (!arguments.directives.empty()) {
    KINTSUGI_ASSIGN(const flow::Directives directives, read_directives(arguments.directives));
    record_values(directives, request);
  }
  return request;
}

std::string time_of_day(int64_t unix_ms) {
  constexpr int64_t kNanoseconds = 1'000'000, kMilliseconds = 1000;
  return fmt::format("{}.{:03}", local_time(unix_ms * kNanoseconds), unix_ms % kMilliseconds);
}

}  // namespace kintsugi::cli
