#include "repair_manager/slots.h"

#include "common/base/assert.h"

namespace kintsugi::repair_manager {

void SlotTable::acquire(std::span<const ServerId> helpers, ServerId destination, uint64_t bytes) {
  for (ServerId helper : helpers)
    KINTSUGI_ASSERT(can_help(helper));
  KINTSUGI_ASSERT(can_receive(destination));
  add_helpers(helpers);
  add_destination(destination, bytes);
}

void SlotTable::release(std::span<const ServerId> helpers, ServerId destination, uint64_t bytes) {
  remove_helpers(helpers);
  remove_destination(destination, bytes);
}

void SlotTable::add_helpers(std::span<const ServerId> helpers) {
  for (ServerId helper : helpers)
    ++loads_[helper].as_helper;
}

void SlotTable::remove_helpers(std::span<const ServerId> helpers) {
  for (ServerId helper : helpers) {
    ServerLoad& load = loads_.at(helper);
    KINTSUGI_ASSERT(load.as_helper > 0);
    --load.as_helper;
    if (load.repairs() == 0) loads_.erase(helper);
  }
}

void SlotTable::add_destination(ServerId destination, uint64_t bytes) {
  ServerLoad& load = loads_[destination];
  ++load.as_destination;
  load.incoming_bytes += bytes;
}

void SlotTable::remove_destination(ServerId destination, uint64_t bytes) {
  ServerLoad& load = loads_.at(destination);
  KINTSUGI_ASSERT(load.as_destination > 0 && load.incoming_bytes >= bytes);
  --load.as_destination;
  load.incoming_bytes -= bytes;
  if (load.repairs() == 0) loads_.erase(destination);
}

}  // namespace kintsugi::repair_manager
