#include "repair_manager/slots.h"

#include "common/base/assert.h"

namespace kintsugi::repair_manager {

void SlotTable::acquire(std::span<const ServerId> helpers, ServerId destination, uint64_t bytes) {
  for (ServerId helper : helpers) {
    KINTSUGI_ASSERT(can_help(helper));
    ++loads_[helper].as_helper;
  }
  KINTSUGI_ASSERT(can_receive(destination));
  ServerLoad& receiving = loads_[destination];
  ++receiving.as_destination;
  receiving.incoming_bytes += bytes;
}

void SlotTable::release(std::span<const ServerId> helpers, ServerId destination, uint64_t bytes) {
  for (ServerId helper : helpers) {
    ServerLoad& load = loads_.at(helper);
    KINTSUGI_ASSERT(load.as_helper > 0);
    --load.as_helper;
    if (load.repairs() == 0) loads_.erase(helper);
  }
  ServerLoad& receiving = loads_.at(destination);
  KINTSUGI_ASSERT(receiving.as_destination > 0 && receiving.incoming_bytes >= bytes);
  --receiving.as_destination;
  receiving.incoming_bytes -= bytes;
  if (receiving.repairs() == 0) loads_.erase(destination);
}

}  // namespace kintsugi::repair_manager
