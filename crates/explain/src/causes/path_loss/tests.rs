//! path_loss
