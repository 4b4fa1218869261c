#include "monitoring/sight/module.h"

#include "common/base/assert.h"

namespace kintsugi::sight {

void Module::set_inputs(Inputs inputs) {
  KINTSUGI_ASSERT(inputs.size() <= kMaxInputs);
  for (double value : inputs)
    event_.inputs[event_.input_count++] = static_cast<float>(value);
}

void Module::output(size_t index, double value) {
  KINTSUGI_ASSERT(index < kMaxOutputs);
  if (!recording()) return;
  event_.outputs[index] = static_cast<float>(value);
  event_.output_mask |= static_cast<uint8_t>(1u << index);
}

}  // namespace kintsugi::sight
