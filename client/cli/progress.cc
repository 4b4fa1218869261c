#include "client/cli/progress.h"

#include <cstdio>

#include <fmt/format.h>
#include <unistd.h>

#include "client/cli/format.h"

namespace kintsugi::cli {
namespace {

constexpr int64_t kRedrawNs = 100'000'000;
constexpr int kBarCells = 24;

}  // namespace

Progress::Progress(std::string label, uint64_t total_bytes)
    : label_(std::move(label)), total_bytes_(total_bytes), shown_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (shown_ && drawn_ns_ != 0) std::fputs("\r\033[K", stderr);
}

double Progress::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
}

void Progress::add(uint64_t bytes) {
  bytes_ += bytes;
  if (!shown_) return;
  const auto now = static_cast<int64_t>(seconds() * 1e9) + 1;
  // Whoever wins the exchange draws; the others have nothing to wait for.
  int64_t drawn = drawn_ns_;
  if (now - drawn >= kRedrawNs && drawn_ns_.compare_exchange_strong(drawn, now)) draw();
}

void Progress::say(std::string_view what) {
  if (!shown_) return;
  show(what);
  drawn_ns_ = static_cast<int64_t>(seconds() * 1e9) + 1;
}

void Progress::draw() {
  const uint64_t bytes = bytes_;
  const double elapsed = seconds();
  const std::string rate =
      human_bytes(static_cast<uint64_t>(elapsed > 0 ? static_cast<double>(bytes) / elapsed : 0));
  std::string line;
  if (total_bytes_ > 0) {
    const double share = std::min(1.0, static_cast<double>(bytes) / static_cast<double>(total_bytes_));
    const int filled = static_cast<int>(share * kBarCells);
    line = fmt::format("{} [{:=<{}}{: <{}}] {:3.0f}%  {}  {}/s", label_, "", filled, "", kBarCells - filled,
                       share * 100, human_bytes(bytes), rate);
  } else {
    line = fmt::format("{} {}  {}/s", label_, human_bytes(bytes), rate);
  }
  show(line);
}

void Progress::show(std::string_view line) {
  const std::string drawn = fmt::format("\r{}\033[K", line);
  std::fwrite(drawn.data(), 1, drawn.size(), stderr);
  std::fflush(stderr);
}

}  // namespace kintsugi::cli
