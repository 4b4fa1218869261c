#include "client/mount/end_watch.h"

#include <unistd.h>

#include "common/log/log.h"

namespace kintsugi::mount {

namespace {

constexpr Duration kLookInterval = std::chrono::milliseconds(500);
constexpr Duration kAnswerLimit = std::chrono::seconds(2);

int64_t seconds_of(Duration duration) {
  return std::chrono::duration_cast<std::chrono::seconds>(duration).count();
}

}  // namespace

EndWatch::EndWatch(const runtime::Runtime& runtime, client::Client& client, client::OpenFiles& files,
                   std::string what)
    : clock_(runtime.clock), client_(client), files_(files), what_(std::move(what)), tasks_(runtime) {}

void EndWatch::start() {
  if (std::exchange(watching_, true)) return;
  last_ = now();
  since_ = clock_.now();
  if (!std::exchange(running_, true)) tasks_.spawn(watch());
}

asio::awaitable<void> EndWatch::stop() {
  co_await tasks_.stop();
}

EndWatch::Progress EndWatch::now() const {
  const auto counts = files_.counts();
  return {counts.dirty_bytes, counts.flushes, counts.stripes_written, files_.names().pending()};
}

asio::awaitable<bool> EndWatch::metaserver_answers() {
  co_return (co_await client_.disk_free(client_.context().with_deadline(clock_.now() + kAnswerLimit)))
      .has_value();
}

asio::awaitable<void> EndWatch::watch() {
  while (co_await tasks_.sleep_for(kLookInterval)) {
    if (!watching_) continue;
    const Progress found = now();
    if (std::exchange(last_, found) != found) since_ = clock_.now();
    const Duration waited = clock_.now() - since_;
    if (waited < kPatience) continue;
    const bool answers = waited < kLongPatience && co_await metaserver_answers();
    if (answers || !watching_ || now() != found) continue;
    co_return give_up(found, waited);
  }
}

void EndWatch::give_up(const Progress& left, Duration waited) {
  if (left.dirty_bytes > 0 || left.names) {
    log::error(
        "{} ends, and servers took nothing for {} seconds: {} bytes{} that applications had written and not "
        "synced are LOST",
        what_, seconds_of(waited), left.dirty_bytes, left.names ? " and names of files" : "");
  } else {
    log::warning("{} ends although servers do not answer; nothing was left to be written out", what_);
  }
  ::alarm(static_cast<unsigned>(seconds_of(kLastPatience)));
  client_.cancel();
}

}  // namespace kintsugi::mount
