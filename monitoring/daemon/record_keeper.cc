#include "monitoring/daemon/record_keeper.h"

#include "common/log/log.h"

namespace kintsugi::monitoring {

asio::awaitable<Status> RecordKeeper::open(std::function<void(std::string_view)> read) {
  KINTSUGI_CO_TRY(co_await log_.open(std::move(read)));
  tasks_.spawn(write());
  co_return Status{};
}

void RecordKeeper::keep(std::string record) {
  if (waiting_.size() >= most_waiting_) {
    waiting_.pop_front();
    ++given_up_;
  }
  waiting_.push_back(std::move(record));
  changed_.notify_one();
}

asio::awaitable<void> RecordKeeper::stop() {
  tasks_.request_stop();
  changed_.notify_all();
  co_await tasks_.join();
}

asio::awaitable<void> RecordKeeper::write() {
  std::string last_error;
  while (true) {
    while (waiting_.empty() && !tasks_.stopping())
      co_await changed_.wait();
    if (waiting_.empty()) co_return;
    const std::string record = std::move(waiting_.front());
    waiting_.pop_front();
    const Status status = co_await log_.append(record);
    given_up_ += !status.ok();
    // A lasting error is logged once.
    const std::string error = status.ok() ? std::string() : status.to_string();
    if (!error.empty() && error != last_error) log::warning("alarms or snapshots cannot be kept: {}", error);
    last_error = error;
  }
}

}  // namespace kintsugi::monitoring
