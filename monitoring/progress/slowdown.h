/// What goes on, but slower than it did: the wait totals of one window against those of reference windows.
#pragma once

namespace kintsugi::progress {
class Slowdowns {};
}  // namespace kintsugi::progress
