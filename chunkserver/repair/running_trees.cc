#include "chunkserver/repair/running_trees.h"

namespace kintsugi::chunkserver {
namespace {

Status stopping() {
  return {Code::kCancelled, "the server is stopping"};
}

}  // namespace

RunningTrees::Admission::Admission(RunningTrees& trees, partial_sum::SumReceiver& receiver)
    : trees_(trees),
      window_bytes_(receiver.window_bytes()),
      registered_(trees.running_.insert(trees.running_.end(), &receiver)) {
  trees_.window_bytes_ += window_bytes_;
}

RunningTrees::Admission::~Admission() {
  trees_.running_.erase(registered_);
  trees_.window_bytes_ -= window_bytes_;
}

Result<std::unique_ptr<RunningTrees::Admission>> RunningTrees::admit(partial_sum::SumReceiver& receiver) {
  if (stopping_) return stopping();
  if (running_.size() >= kMaxTrees)
    return Status{Code::kLimitExceeded, fmt::format("{} repair trees run here already", kMaxTrees)};
  const uint64_t bytes = receiver.window_bytes();
  // One alone may have what it needs, or it would never run.
  if (!running_.empty() && window_bytes_ + bytes > most_window_bytes_) {
    return Status{
        Code::kLimitExceeded,
        fmt::format("repair trees that run here may need {} MiB of memory, and {} MiB more are too many",
                    window_bytes_ >> 20, bytes >> 20)};
  }
  return std::make_unique<Admission>(*this, receiver);
}

void RunningTrees::stop() {
  stopping_ = true;
  // Nothing is erased while this runs: failing a receiver only wakes its tasks.
  for (partial_sum::SumReceiver* receiver : running_)
    receiver->fail(stopping());
}

}  // namespace kintsugi::chunkserver
