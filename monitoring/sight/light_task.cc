#include "monitoring/sight/light_task.h"

namespace kintsugi::sight {

bool LightTask::reserve() {
  for (Place& place : places_)
    if (place.slot == 0) place.slot = records_.take();
  if (places_.back().slot == 0) return false;
  task_ = tasks_.begin({.weight = 1});
  if (task_ == 0) return false;
  task_record_ = &tasks_[task_];
  uint32_t below = 0;
  for (Place& place : places_) {
    place.record = &records_[place.slot];
    records_.fill(place.slot, {}, {.task = task_, .below = below}, RegionKind::kFree, 0);
    below = place.slot;
  }
  put(task_record_->root, places_.front().slot);
  return true;
}

LightTask::Released LightTask::release() {
  Released released{.task = task_, .depth = depth_};
  // What is not open is kept for the next one.
  for (uint32_t i = 0; i < depth_; ++i)
    released.slots[i] = std::exchange(places_[i].slot, 0);
  task_ = depth_ = 0;
  return released;
}

}  // namespace kintsugi::sight
