/// Decodes the chunks of a window that did not come.
#pragma once

#include "client/lib/read/window_chunks.h"
#include "common/base/status.h"

namespace kintsugi::client {

/// Computes the wanted chunks that are not done from those that are, and puts them there. The buffers are taken from
/// `memory`, so the window's lease has to cover them. REQUIRES: chunks.done_are_enough(), and whole cells where the
/// code has more than one row.
Status decode_missing(WindowChunks& chunks, Memory& memory);

}  // namespace kintsugi::client
