"""One driver a device interface; each is imported only when its device is used."""
