#include "monitoring/progress/history.h"

namespace kintsugi::progress {

History::History() : state_(std::make_unique<State>()) {}
History::~History() = default;
History::History(History&&) noexcept = default;
History& History::operator=(History&&) noexcept = default;

bool History::wants_everything(uint64_t process) const {
  return state_->wanted.contains(process);
}

}  // namespace kintsugi::progress
