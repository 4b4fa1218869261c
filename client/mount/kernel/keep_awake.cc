#include "client/mount/kernel/keep_awake.h"

#include <fstream>

#include <fcntl.h>
#include <unistd.h>

namespace kintsugi::mount {

namespace {

constexpr int32_t kAtOnce = 0;  // the governor lets processors wait awake for this value only
constexpr int32_t kAnyTime =
    2'000'000'000;  // PM_QOS_CPU_LATENCY_DEFAULT_VALUE of Linux: nothing is asked for

}  // namespace

KeepAwake::KeepAwake(runtime::Clock& clock, const std::string& device) : clock_(clock) {
  if (device.empty()) return;
  device_ = ::open(device.c_str(), O_WRONLY | O_CLOEXEC);
  // An open device asks for something already, which is nothing by default; a kernel that does not take the values is
  // left alone.
  if (device_ >= 0 && !write_bound(kAnyTime)) ::close(std::exchange(device_, -1));
}

KeepAwake::~KeepAwake() {
  if (next_look_ != runtime::TimerId::kNone) clock_.cancel(next_look_);
  if (device_ >= 0) ::close(device_);
}

void KeepAwake::ask() {
  // Refused now, it would be refused for each request.
  if (!write_bound(kAtOnce)) {
    ::close(std::exchange(device_, -1));
    return;
  }
  asked_ = true;
  next_look_ = clock_.call_at(last_ + kAwakeFor, [this] { look(); });
}

void KeepAwake::look() {
  const TimePoint until = last_ + kAwakeFor;
  if (clock_.now() < until) {
    next_look_ = clock_.call_at(until, [this] { look(); });
    return;
  }
  next_look_ = runtime::TimerId::kNone;
  asked_ = false;
  (void)write_bound(kAnyTime);
}

bool KeepAwake::write_bound(int32_t microseconds) {
  return ::write(device_, &microseconds, sizeof microseconds) == sizeof microseconds;
}

std::string device_to_keep_awake() {
  std::ifstream file("/sys/devices/system/cpu/cpuidle/current_governor");
  std::string governor;
  return file >> governor && governor == "haltpoll" ? "/dev/cpu_dma_latency" : "";
}

}  // namespace kintsugi::mount
