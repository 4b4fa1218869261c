#include "client/mount/end_watch.h"

#include <unistd.h>

#include "common/log/log.h"

namespace kintsugi::mount {

namespace {

constexpr Duration kLookInterval = std::chrono::milliseconds(500);

int64_t seconds_of(Duration duration) {
  return std::chrono::duration_cast<std::chrono::seconds>(duration).count();
}

}  // namespace

EndWatch::EndWatch(runtime::Clock& clock, client::Client& client, client::OpenFiles& files, std::string what)
    : clock_(clock), client_(client), files_(files), what_(std::move(what)) {}

void EndWatch::start() {
  if (gave_up_ || timer_ != runtime::TimerId::kNone) return;
  last_ = now();
  since_ = clock_.now();
  timer_ = clock_.call_at(since_ + kLookInterval, [this] { look(); });
}

void EndWatch::stop() {
  if (timer_ != runtime::TimerId::kNone) clock_.cancel(timer_);
  timer_ = runtime::TimerId::kNone;
}

EndWatch::Progress EndWatch::now() const {
  const auto counts = files_.counts();
  return {counts.dirty_bytes, counts.flushes, counts.stripes_written, files_.names().pending()};
}

void EndWatch::look() {
  timer_ = runtime::TimerId::kNone;
  const Progress found = now();
  const TimePoint at = clock_.now();
  if (found != last_) since_ = at;
  last_ = found;
  if (at - since_ >= kPatience) return give_up(found);
  timer_ = clock_.call_at(at + kLookInterval, [this] { look(); });
}

void EndWatch::give_up(const Progress& left) {
  gave_up_ = true;
  if (left.dirty_bytes > 0 || left.names) {
    log::error(
        "{} ends, and servers took nothing for {} seconds: {} bytes{} that applications had written and not "
        "synced are LOST",
        what_, seconds_of(kPatience), left.dirty_bytes, left.names ? " and names of files" : "");
  } else {
    log::warning("{} ends although servers do not answer; nothing was left to be written out", what_);
  }
  ::alarm(static_cast<unsigned>(seconds_of(kLastPatience)));
  client_.cancel();
}

}  // namespace kintsugi::mount
